//! The aggregation table: from a packet's service chain to its next hop.

pub mod key;
mod nfi;
mod vlan;
mod vni;

pub use nfi::Nfi;
pub use vlan::VlanTable;
pub use vni::{VniTable, VniTableError};

use crate::octets::Octets;

/// An aggregation table, by the field that identifies service chains.
#[derive(Clone, Debug)]
pub enum Table {
    /// The VID of the packet's outermost VLAN tag.
    Vlan(Box<VlanTable>),
    /// The VNI of the packet's VXLAN header, to this UDP port.
    Vni(VniTable, u16),
}

impl Table {
    /// Returns the next hop of `packet`; `None` if it has no service chain, or one without an entry.
    #[inline]
    pub fn next_hop<S: Octets + ?Sized>(&self, packet: &S) -> Option<Nfi> {
        match self {
            Table::Vlan(table) => table.get(key::vid(packet)?),
            Table::Vni(table, port) => table.get(key::vni(packet, *port)?),
        }
    }

    /// Looks up a burst of at most `N` packets, in two passes: after reading memory that a guest may change, the compiler can
    /// keep nothing in registers from one packet to the next, so the second pass reads no packet.
    #[inline]
    pub fn next_hops<S: Octets, const N: usize>(&self, packets: impl Iterator<Item = S>, out: &mut [Option<Nfi>; N]) {
        match self {
            Table::Vlan(table) => {
                let mut tags = [[0; 4]; N];
                let (mut first, mut are_alike, mut count) = (None, true, 0);
                for (tag, packet) in tags.iter_mut().zip(packets) {
                    *tag = packet.read(12).unwrap_or_default();
                    // Now, in registers: several tags read at once would wait until each is stored.
                    are_alike &= *tag == *first.get_or_insert(*tag);
                    count += 1;
                }
                let (tags, out) = (&tags[..count], &mut out[..count]);
                let look_up = |tag: [u8; 4]| key::vid_of(tag).and_then(|vid| table.get(vid));
                match first {
                    // Bursts of one chain are common.
                    Some(first) if are_alike => out.fill(look_up(first)),
                    _ => out.iter_mut().zip(tags).for_each(|(hop, tag)| *hop = look_up(*tag)),
                }
            }
            Table::Vni(..) => out.iter_mut().zip(packets).for_each(|(hop, packet)| *hop = self.next_hop(&packet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a packet of the chain `vid`, or an untagged one.
    fn packet(vid: Option<u16>) -> Vec<u8> {
        let mut packet = vec![0; 60];
        if let Some(vid) = vid {
            packet[12..16].copy_from_slice(&[0x81, 0, (vid >> 8) as u8, vid as u8]);
        }
        packet
    }

    #[test]
    fn a_burst_is_looked_up_like_its_packets() {
        let mut table = VlanTable::default();
        for (vid, nfi) in [(5, 1), (6, 2)] {
            table.set(vid, Nfi::new(nfi));
        }
        let table = Table::Vlan(Box::new(table));
        let bursts: [&[Option<u16>]; 5] =
            [&[], &[Some(5); 4], &[None; 3], &[Some(5), Some(5), Some(6)], &[Some(7), None, Some(6), Some(5)]];
        for vids in bursts {
            let packets: Vec<_> = vids.iter().map(|&vid| packet(vid)).collect();
            let mut out = [None; 8];
            table.next_hops(packets.iter().map(|packet| Slice(packet)), &mut out);
            let single: Vec<_> = packets.iter().map(|packet| table.next_hop(&packet[..])).collect();
            assert_eq!(out[..vids.len()], single);
            assert!(out[vids.len()..].iter().all(Option::is_none));
        }
    }

    struct Slice<'p>(&'p [u8]);

    impl Octets for Slice<'_> {
        fn size(&self) -> usize {
            self.0.len()
        }

        fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
            self.0.read(at)
        }
    }
}
