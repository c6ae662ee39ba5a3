//! Packets: Ethernet with a VLAN tag, a number, and the cycle count at sending.

/// Service chain of all packets: a VLAN.
pub const CHAIN: u16 = 100;

/// EtherType for local experiments (IEEE 802, 9.2.3.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// EtherType of a VLAN tag (802.1Q).
const TAG: [u8; 2] = [0x81, 0x00];
/// Offsets after the EtherType of the number and of the cycle count.
const NUMBER: usize = 2;
const SENT: usize = 10;
/// Offset of the EtherType, with the tag before it.
const TYPE: usize = 16;

/// Length of a packet in bytes, without its checksum.
pub const SIZE: usize = 64;

/// Identification of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number, counted from 0.
    pub number: u64,
    /// Cycle count at sending.
    pub sent: u64,
}

/// Returns a packet without a stamp.
pub fn blank() -> [u8; SIZE] {
    let mut packet = [0; SIZE];
    packet[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    packet[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    packet[12..14].copy_from_slice(&TAG);
    packet[14..16].copy_from_slice(&CHAIN.to_be_bytes());
    packet[TYPE..TYPE + 2].copy_from_slice(&ETHERTYPE);
    packet
}

/// Stamps a packet.
#[inline(always)]
pub fn stamp(packet: &mut [u8], stamp: Stamp) {
    packet[TYPE + NUMBER..TYPE + NUMBER + 8].copy_from_slice(&stamp.number.to_le_bytes());
    packet[TYPE + SENT..TYPE + SENT + 8].copy_from_slice(&stamp.sent.to_le_bytes());
}

/// Reads the stamp of a packet, with or without its tag, which the kernel removes; `None` if it is not one of ours.
#[inline(always)]
pub fn read(packet: &[u8]) -> Option<Stamp> {
    let at = if packet.get(12..14)? == TAG { TYPE } else { TYPE - 4 };
    let behind = packet.get(at..at + SENT + 8)?;
    let word = |at: usize| u64::from_le_bytes(behind[at..at + 8].try_into().expect("eight bytes"));
    (behind[..2] == ETHERTYPE).then(|| Stamp { number: word(NUMBER), sent: word(SENT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_with_the_tag_and_without() {
        let mut packet = blank();
        let written = Stamp { number: 77, sent: u64::MAX - 1 };
        stamp(&mut packet, written);
        assert_eq!(read(&packet), Some(written));
        let untagged = [&packet[..12], &packet[16..]].concat();
        assert_eq!(read(&untagged), Some(written));
    }

    #[test]
    fn packets_of_others_have_none() {
        let mut other = blank();
        other[16] = 0x08;
        assert_eq!(read(&other), None);
        assert_eq!(read(&blank()[..20]), None);
        assert_eq!(read(&[]), None);
    }
}
