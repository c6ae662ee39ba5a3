//! The traffic class of packets (RFC 2474, RFC 3168), which is copied to the headers around them, and back if the network
//! marks it.

use crate::octets::Octets;
use crate::table::key::network;
use packet::checksum::Change;
use packet::{ethertype, header_len};

/// The bits of congestion notification, and their values.
const ECN: u8 = 3;
const NOT_CAPABLE: u8 = 0;
const CAPABLE: u8 = 2;
const CONGESTED: u8 = 3;

/// Code points for less than usual (RFC 8622; class 1 of RFC 2474 is used so as well).
const LOWER_EFFORT: [u8; 2] = [1, 8];

/// Returns the traffic class of a packet; `None` if it is not IP.
#[inline]
pub fn of<S: Octets + ?Sized>(packet: &S) -> Option<u8> {
    let (ethertype, at) = network(packet)?;
    let [first, second] = packet.read(at)?;
    match (ethertype, first >> 4) {
        (ethertype::IPV4, 4) => Some(second),
        (ethertype::IPV6, 6) => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Reports whether a traffic class says that the network is congested.
#[inline(always)]
pub const fn is_congested(class: u8) -> bool {
    class & ECN == CONGESTED
}

/// The traffic class around the packets so far.
///
/// One packet has its own (RFC 6040 §4.1). Several have the code point of the most urgent, so that none waits longer than it would alone.
/// They are capable of congestion notification if all are, since the network's mark will be one for all; and marked already
/// only if all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around(Option<u8>);

impl Around {
    /// Adds a packet of this class. One that is not IP has the usual one.
    #[inline]
    pub fn add(&mut self, class: Option<u8>) {
        let class = class.unwrap_or(0);
        self.0 = Some(self.0.map_or(class, |so_far| both(so_far, class)));
    }

    /// Returns the class: the usual one of no packets.
    #[inline]
    pub fn class(self) -> u8 {
        self.0.unwrap_or(0)
    }
}

fn both(a: u8, b: u8) -> u8 {
    let urgency = |class: &u8| {
        let code = class >> 2;
        if LOWER_EFFORT.contains(&code) { 0 } else { code + 1 }
    };
    let code = if urgency(&a) >= urgency(&b) { a } else { b } & !ECN;
    let ecn = match (a & ECN, b & ECN) {
        (a, b) if a == b => a,
        (NOT_CAPABLE, _) | (_, NOT_CAPABLE) => NOT_CAPABLE,
        _ => CAPABLE,
    };
    code | ecn
}

/// Outcome of [`mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It has the mark now, or is not IP.
    Passed,
    /// It has to be dropped: its sender would not understand the mark (RFC 6040 §4.2).
    Refused,
}

/// Marks a packet, of which `head` is the beginning, as having experienced congestion.
pub fn mark(head: &mut [u8]) -> Marked {
    let (Some(class), Some((ethertype, at))) = (of(&*head), network(&*head)) else { return Marked::Passed };
    if class & ECN == NOT_CAPABLE {
        return Marked::Refused;
    }
    let Some(header) = head.get_mut(at..) else { return Marked::Passed };
    if ethertype == ethertype::IPV6 {
        header[1] |= CONGESTED << 4;
    } else if let Some(header) = header.first_chunk_mut::<{ header_len::IPV4 }>() {
        let before = [header[0], header[1]];
        header[1] |= CONGESTED;
        let checksum = u16::from_be_bytes([header[10], header[11]]);
        let checksum = Change::between(&before, &header[..2]).apply(checksum);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    Marked::Passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum;

    fn around(classes: &[u8]) -> u8 {
        let mut around = Around::default();
        classes.iter().for_each(|class| around.add(Some(*class)));
        around.class()
    }

    #[test]
    fn the_most_urgent_decides_and_all_have_to_be_capable() {
        const EF: u8 = 46 << 2;
        const LE: u8 = 1 << 2;
        assert_eq!(around(&[]), 0);
        assert_eq!((around(&[EF | 3]), around(&[LE | 1])), (EF | 3, LE | 1), "one has its own");
        assert_eq!((around(&[0, EF, LE]), around(&[LE, 0]), around(&[8 << 2, LE])), (EF, 0, 8 << 2));
        for (packets, ecn) in
            [(&[1, 1][..], 1), (&[1, 2], 2), (&[2, 3], 2), (&[3, 3], 3), (&[0, 3], 0), (&[2, 2, 0], 0)]
        {
            assert_eq!(around(packets), ecn, "{packets:?}");
        }
        let mut around = Around::default();
        around.add(None);
        around.add(Some(EF | 2));
        assert_eq!(around.class(), EF);
    }

    fn frame(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[2; 12], &[0x81, 0, 0, 9][..], &ethertype, packet].concat()
    }

    #[test]
    fn marks_are_understood_or_refused() {
        let mut v4 = [0x45, 0xb9, 0, 20, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum::of(&v4);
        v4[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame4 = frame([8, 0], &v4);
        assert_eq!((of(&frame4[..]), mark(&mut frame4)), (Some(0xb9), Marked::Passed));
        assert_eq!((of(&frame4[..]), checksum::of(&frame4[18..])), (Some(0xbb), 0));
        let mut v6 = [0; 40];
        v6[..2].copy_from_slice(&[0x6b, 0xa5]);
        let mut frame6 = frame([0x86, 0xdd], &v6);
        assert_eq!((of(&frame6[..]), mark(&mut frame6)), (Some(0xba), Marked::Passed));
        assert_eq!(frame6[18..20], [0x6b, 0xb5]);
        frame6[19] = 0x85;
        assert_eq!((of(&frame6[..]), mark(&mut frame6)), (Some(0xb8), Marked::Refused));
        let mut arp = frame([8, 6], &v4);
        assert_eq!((of(&arp[..]), mark(&mut arp)), (None, Marked::Passed));
        for cut in 0..frame4.len() {
            mark(&mut frame4[..cut].to_vec());
            mark(&mut frame6[..cut].to_vec());
        }
    }
}
