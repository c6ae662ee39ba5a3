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
                let (mut first, mut differences, mut count) = (None, 0, 0);
                for (tag, packet) in tags.iter_mut().zip(packets) {
                    *tag = packet.read(12).unwrap_or_default();
                    let number = u32::from_ne_bytes(*tag);
                    differences |= number ^ *first.get_or_insert(number);
                    count += 1;
                }
                let (tags, out) = (&tags[..count], &mut out[..count]);
                let look_up = |tag: [u8; 4]| key::vid_of(tag).and_then(|vid| table.get(vid));
                match first {
                    // Bursts of one chain are common.
                    Some(first) if differences == 0 => out.fill(look_up(first.to_ne_bytes())),
                    _ => out.iter_mut().zip(tags).for_each(|(hop, tag)| *hop = look_up(*tag)),
                }
            }
            Table::Vni(..) => out.iter_mut().zip(packets).for_each(|(hop, packet)| *hop = self.next_hop(&packet)),
        }
    }
}
