//! Sequence numbers of segments that only acknowledge.
//!
//! smoltcp 0.14 sends such a segment with the number of the next byte that it sends. While it repeats lost bytes that is an old
//! number, and a peer which has these bytes ignores the segment. If both ends repeat at the same time, neither hears that its
//! bytes have arrived, forever. Here such segments get the number after all bytes that were ever sent, which a peer that has them
//! expects (RFC 9293 §3.10.7.4).

use smoltcp::phy::{Device, DeviceCapabilities, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpEndpoint, IpProtocol, Ipv4Packet, TcpPacket, TcpSeqNumber};
use std::collections::HashMap;

/// The two ends of a connection: the port here, and the peer.
pub(super) type Ends = (u16, IpEndpoint);

/// The sequence number after the last byte of each connection.
#[derive(Default)]
pub(super) struct Sequences(HashMap<Ends, Last>);

struct Last {
    number: TcpSeqNumber,
    /// Whether the last byte was sent alone. It may be a probe of a closed window, which the peer does not take.
    is_lone: bool,
}

impl Sequences {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the connections that `lives` does not know.
    pub(super) fn retain(&mut self, mut lives: impl FnMut(&Ends) -> bool) {
        self.0.retain(|ends, _| lives(ends));
    }

    /// Looks at a frame before it is sent.
    fn pass(&mut self, frame: &mut [u8]) -> Option<()> {
        let mut frame = EthernetFrame::new_checked(frame).ok()?;
        if frame.ethertype() != EthernetProtocol::Ipv4 {
            return None;
        }
        let mut packet = Ipv4Packet::new_checked(frame.payload_mut()).ok()?;
        if packet.next_header() != IpProtocol::Tcp {
            return None;
        }
        let peer = packet.dst_addr();
        let mut segment = TcpPacket::new_checked(packet.payload_mut()).ok()?;
        let ends = (segment.src_port(), IpEndpoint::new(peer.into(), segment.dst_port()));
        let (number, len) = (segment.seq_number(), segment.segment_len());
        if segment.syn() {
            self.0.insert(ends, Last { number: number + len, is_lone: false });
        } else if segment.rst() {
            self.0.remove(&ends);
        } else if let Some(last) = self.0.get_mut(&ends) {
            if len > 0 {
                if number + len > last.number {
                    *last = Last { number: number + len, is_lone: len == 1 && !segment.fin() };
                }
            } else if number < last.number && !(last.is_lone && number + 1 == last.number) {
                let [old, new] = [number, last.number].map(|number| number.0.to_be_bytes());
                let checksum = packet::checksum::Change::between(&old, &new).apply(segment.checksum());
                segment.set_seq_number(last.number);
                segment.set_checksum(checksum);
            }
        }
        Some(())
    }
}

/// A device whose sent segments are numbered so.
pub(super) struct Numbered<'a, D> {
    pub(super) device: &'a mut D,
    pub(super) sequences: &'a mut Sequences,
}

impl<D: Device> Device for Numbered<'_, D> {
    type RxToken<'t>
        = D::RxToken<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Token<'t, D::TxToken<'t>>
    where
        Self: 't;

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (received, token) = self.device.receive(now)?;
        Some((received, Token { token, sequences: self.sequences }))
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        Some(Token { token: self.device.transmit(now)?, sequences: self.sequences })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.device.capabilities()
    }
}

/// A frame to send.
pub(super) struct Token<'t, T> {
    token: T,
    sequences: &'t mut Sequences,
}

impl<T: TxToken> TxToken for Token<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.token.consume(len, |frame| {
            let outcome = f(frame);
            self.sequences.pass(frame);
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::tests::segment;
    use smoltcp::wire::{EthernetAddress, TcpControl, TcpRepr};
    use std::net::Ipv4Addr;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// Sends a segment; returns the number that it has then. Its checksum must be right.
    fn sent(sequences: &mut Sequences, control: TcpControl, number: u32, payload: &[u8]) -> u32 {
        let tcp = TcpRepr {
            src_port: 50000,
            dst_port: 6379,
            control,
            seq_number: TcpSeqNumber(number as i32),
            ack_number: Some(TcpSeqNumber(7)),
            window_len: 100,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        let mut bytes = segment([SOURCE, PEER], EthernetAddress([2; 6]), &tcp);
        sequences.pass(&mut bytes);
        let segment = TcpPacket::new_checked(&bytes[34..]).unwrap();
        assert!(segment.verify_checksum(&SOURCE.into(), &PEER.into()));
        segment.seq_number().0 as u32
    }

    #[test]
    fn acknowledgements_have_the_greatest_number_and_others_keep_theirs() {
        let mut sequences = Sequences::default();
        let mut send = |control, number, payload: &[u8]| sent(&mut sequences, control, number, payload);
        let start = u32::MAX - 1;
        assert_eq!(send(TcpControl::None, 5, b""), 5, "nothing is known of this connection");
        assert_eq!(send(TcpControl::Syn, start, b""), start);
        assert_eq!(send(TcpControl::None, u32::MAX, b"0123456789"), u32::MAX);
        assert_eq!(send(TcpControl::None, u32::MAX, b"01234"), u32::MAX, "it is repeated");
        assert_eq!(send(TcpControl::None, 4, b""), 9);
        assert_eq!(send(TcpControl::None, 9, b"?"), 9, "it may be a probe");
        assert_eq!(send(TcpControl::None, 9, b""), 9);
        assert_eq!(send(TcpControl::Fin, 10, b""), 10);
        assert_eq!(send(TcpControl::None, u32::MAX, b""), 11);
        assert_eq!(send(TcpControl::Syn, 100, b""), 100, "the port is used again");
        assert_eq!(send(TcpControl::None, 101, b""), 101);
        assert_eq!(send(TcpControl::Rst, 101, b""), 101);
        assert_eq!(send(TcpControl::None, 90, b""), 90);
    }
}
