//! The headers of a frame with work, in the terms of a network card: it knows TCP and UDP right behind an IP header, and nothing else. A
//! sender may ask for more ([`super::header`]).

use super::header::field;
use super::message::Found;
use super::{Message, Offload, Work};
use crate::header_len::{IPV6, UDP};
use crate::transport::word;

/// Congestion Window Reduced, in byte 13 of a TCP header (RFC 3168 §6.1).
const CWR: u8 = 0x80;

/// Lengths of headers in bytes, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Ethernet's, with VLAN tags.
    pub link: u16,
    /// IP's, with options of version 4.
    pub network: u16,
    /// TCP's with options, or UDP's.
    pub transport: u16,
    /// Whether IP is of version 6.
    pub is_v6: bool,
    /// Whether it is UDP, and not TCP.
    pub is_udp: bool,
}

impl Layers {
    /// Finds the headers of a frame of `len` bytes with this work, whose first bytes are `head`. `None` if a card does other work than
    /// this, or none: behind extension headers of IPv6, for a checksum in a tunnel, or one that does not cover all of the packet, for a
    /// fragment, for segments of UDP, and of TCP with CWR, which cards handle in several ways.
    pub fn of(head: &[u8], len: u32, offload: Offload) -> Option<Layers> {
        let found = Found::find(head, len).ok()?;
        found.fills(len).ok()?;
        let (start, covered) = (found.transport.start, found.transport.len);
        let whole = found.cut(u16::MAX, false).ok()?;
        let (is_v6, is_udp) = (found.transport.version == 6, whole.message == Message::Udp);
        let is_work = match offload.work() {
            Work::Nothing => false,
            Work::Checksum { start: from, offset } => usize::from(from) == start && offset == field(whole.message),
            Work::Cut(cut) => {
                let is_congested = head.get(start + 13)? & CWR != 0;
                found.cut(cut.size, false) == Ok(cut) && !is_udp && !is_congested
            }
        };
        let is_plain = !is_v6 || start == found.ip + IPV6;
        let is_covered = !is_udp || usize::from(word(head, start + UDP - 4)?) == covered;
        (is_work && is_plain && is_covered).then_some(Layers {
            link: found.ip as u16,
            network: (start - found.ip) as u16,
            transport: whole.header.into(),
            is_v6,
            is_udp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::super::{Cut, Offload};
    use super::*;

    const PAYLOAD: [u8; 600] = [7; 600];

    fn layers(frame: &[u8], offload: Offload) -> Option<Layers> {
        Layers::of(&frame[..frame.len().min(crate::HEAD)], frame.len() as u32, offload)
    }

    fn checksum(cut: Cut) -> Offload {
        Offload::checksum(cut.start.into(), field(cut.message))
    }

    #[test]
    fn lengths_are_those_of_the_headers() {
        let versions = [(Message::Tcp4, false), (Message::Tcp6, true), (Message::Udp, false), (Message::Udp, true)];
        for ((message, is_v6), tags) in versions.into_iter().flat_map(|kind| [0, 1, 2].map(|tags| (kind, tags))) {
            let sample = Sample { tags, ..Sample::of(message, is_v6) };
            let (frame, cut) = (sample.unfinished(&PAYLOAD), sample.cut(300, false));
            let is_udp = message == Message::Udp;
            let (network, transport) = (if is_v6 { 40 } else { 20 }, cut.header.into());
            let expected = Layers { link: 14 + 4 * tags as u16, network, transport, is_v6, is_udp };
            assert_eq!(layers(&frame, checksum(cut)), Some(expected), "{sample:?}");
            let segments = layers(&frame, Offload::cut(cut).unwrap());
            assert_eq!(segments, (!is_udp).then_some(expected), "{sample:?}");
        }
    }

    #[test]
    fn options_of_ip_are_known_and_extensions_are_not() {
        for (message, is_v6) in [(Message::Tcp4, false), (Message::Tcp6, true)] {
            let sample = Sample { with_options: true, ..Sample::of(message, is_v6) };
            let (frame, cut) = (sample.unfinished(&PAYLOAD), sample.cut(300, false));
            for offload in [checksum(cut), Offload::cut(cut).unwrap()] {
                assert_eq!(layers(&frame, offload).map(|layers| layers.network), (!is_v6).then_some(24));
            }
        }
    }

    #[test]
    fn other_checksums_are_not_known() {
        let sample = Sample::of(Message::Udp, false);
        let (frame, start) = (sample.unfinished(&PAYLOAD), sample.cut(300, false).start.into());
        // Of TCP; inside the payload, as in a tunnel.
        for offload in [Offload::checksum(start, 16), Offload::checksum(start + 50, 6), Offload::NONE] {
            assert_eq!(layers(&frame, offload), None);
        }
        let is_known = |frame: &[u8]| layers(frame, Offload::checksum(start, 6)).is_some();
        let with = |at: usize, byte: u8| {
            let mut changed = frame.clone();
            changed[at] = byte;
            changed
        };
        assert!(is_known(&frame));
        // Padding behind the packet, or behind the datagram; a fragment; another protocol.
        assert!(!is_known(&[&frame[..], &[0]].concat()));
        assert!(!is_known(&with(39, frame[39] - 1)));
        assert!(!is_known(&with(20, 0x20)));
        assert!(!is_known(&with(23, 132)));
    }

    #[test]
    fn congestion_is_not_left_to_cards() {
        let sample = Sample { flags: 0x90, ..Sample::of(Message::Tcp4, false) };
        let frame = sample.unfinished(&PAYLOAD);
        for ecn in [false, true] {
            assert_eq!(layers(&frame, Offload::cut(sample.cut(300, ecn)).unwrap()), None);
        }
        assert!(layers(&frame, checksum(sample.cut(300, false))).is_some());
    }
}
