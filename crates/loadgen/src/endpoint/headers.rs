//! Headers of packets, for techniques that carry whole frames: Ethernet, IPv4 and UDP without a checksum, which IPv4 allows.

use super::addresses::{Addresses, UDP_PORT};
use super::contract::HEADERS;
use packet::checksum::Sum;
use packet::{ethertype, ip_protocol};

/// Offset of the IPv4 header.
const IP: usize = 14;
/// Offset of its total length.
const IP_LEN: usize = IP + 2;
/// Offset of its checksum.
const IP_SUM: usize = IP + 10;
/// Offset of its addresses, source and destination.
const IP_ADDRESSES: usize = IP + 12;
/// Offset of the UDP header.
const UDP: usize = IP + 20;
/// Offset of its length.
const UDP_LEN: usize = UDP + 4;

/// Headers from one endpoint to another.
struct Template {
    /// Headers with lengths and a checksum of 0.
    bytes: [u8; HEADERS],
    /// Sum of the IPv4 header.
    sum: Sum,
}

impl Template {
    fn new(from: u8, to: u8) -> Template {
        let mut bytes = [0; HEADERS];
        bytes[..6].copy_from_slice(&Addresses::mac(to).0);
        bytes[6..12].copy_from_slice(&Addresses::mac(from).0);
        bytes[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        // Version 4, five words of header; may not be cut; 64 hops.
        bytes[IP..IP_LEN].copy_from_slice(&[0x45, 0]);
        bytes[IP + 6..IP_SUM].copy_from_slice(&[0x40, 0, 64, ip_protocol::UDP]);
        bytes[IP_ADDRESSES..IP_ADDRESSES + 4].copy_from_slice(&Addresses::ip(from).octets());
        bytes[IP_ADDRESSES + 4..UDP].copy_from_slice(&Addresses::ip(to).octets());
        bytes[UDP..UDP + 2].copy_from_slice(&UDP_PORT.to_be_bytes());
        bytes[UDP + 2..UDP_LEN].copy_from_slice(&UDP_PORT.to_be_bytes());
        let mut sum = Sum::new();
        sum.add(&bytes[IP..UDP]);
        Template { bytes, sum }
    }

    /// Returns the headers of a frame of `len` bytes.
    #[inline(always)]
    fn of(&self, len: usize) -> [u8; HEADERS] {
        let mut bytes = self.bytes;
        let (ip, udp) = ((len - IP) as u16, (len - UDP) as u16);
        let mut sum = self.sum;
        sum.add_word(ip);
        bytes[IP_LEN..IP_LEN + 2].copy_from_slice(&ip.to_be_bytes());
        bytes[IP_SUM..IP_SUM + 2].copy_from_slice(&sum.finish().to_be_bytes());
        bytes[UDP_LEN..UDP_LEN + 2].copy_from_slice(&udp.to_be_bytes());
        bytes
    }
}

/// Headers between an endpoint and its peer.
pub(super) struct Headers {
    to_peer: Template,
    from_peer: Template,
    checked: bool,
}

impl Headers {
    /// Creates the headers; all bytes of received ones are compared if they are to be `checked`.
    pub(super) fn new(Addresses { own, peer }: Addresses, checked: bool) -> Headers {
        Headers { to_peer: Template::new(own, peer), from_peer: Template::new(peer, own), checked }
    }

    #[inline(always)]
    pub(super) fn write(&self, frame: &mut [u8]) {
        let headers = self.to_peer.of(frame.len());
        frame[..HEADERS].copy_from_slice(&headers);
    }

    /// Returns the payload of a frame from the peer, and whether its headers are as the peer wrote them; `None` if it is another
    /// frame.
    #[inline(always)]
    pub(super) fn payload<'f>(&self, frame: &'f [u8]) -> Option<(&'f [u8], bool)> {
        let (headers, payload) = frame.split_first_chunk::<HEADERS>()?;
        let ours = &self.from_peer.bytes;
        let same = headers[12..16] == ours[12..16]
            && headers[IP + 9] == ours[IP + 9]
            && headers[IP_ADDRESSES..UDP_LEN] == ours[IP_ADDRESSES..UDP_LEN];
        same.then(|| (payload, !self.checked || *headers == self.from_peer.of(frame.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum;

    fn frame(from: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![7; len];
        Headers::new(Addresses::of(from), true).write(&mut frame);
        frame
    }

    #[test]
    fn the_peer_finds_the_payload() {
        for len in [HEADERS, 64, 1518] {
            let frame = frame(2, len);
            assert_eq!(checksum::of(&frame[IP..UDP]), 0);
            let headers = Headers::new(Addresses::of(3), true);
            assert_eq!(headers.payload(&frame), Some((&[7; 1518][HEADERS..len], true)));
            assert_eq!(headers.payload(&frame[..HEADERS - 1]), None);
        }
    }

    #[test]
    fn every_change_is_seen_as_a_change_or_as_a_stray() {
        let frame = frame(2, 64);
        let (checked, unchecked) = (Headers::new(Addresses::of(3), true), Headers::new(Addresses::of(3), false));
        for at in 0..HEADERS {
            let mut changed = frame.clone();
            changed[at] ^= 4;
            assert!(!matches!(checked.payload(&changed), Some((_, true))), "byte {at}");
            assert!(!matches!(unchecked.payload(&changed), Some((_, false))), "byte {at}");
        }
        assert_eq!(Headers::new(Addresses::of(2), true).payload(&frame), None);
        assert_eq!(Headers::new(Addresses::of(5), true).payload(&frame), None);
    }
}
