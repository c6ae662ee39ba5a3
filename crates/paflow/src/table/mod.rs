//! The aggregation table: from a packet's service chain to its next hop.

pub mod key;
mod vlan;
mod vni;

pub use vlan::VlanTable;
pub use vni::{VniTable, VniTableError};

use crate::octets::Octets;
use std::num::NonZeroU16;

/// A network function instance: the next hop of a packet. Zero stands for none, in OpenFlow messages and in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nfi(pub NonZeroU16);

impl Nfi {
    /// Returns the instance `id`; `None` if it is zero.
    #[inline(always)]
    pub const fn new(id: u16) -> Option<Nfi> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Nfi(id)),
            None => None,
        }
    }

    /// Returns its number.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl std::fmt::Display for Nfi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

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
                let mut count = 0;
                for (tag, packet) in tags.iter_mut().zip(packets) {
                    *tag = packet.read(12).unwrap_or_default();
                    count += 1;
                }
                for (hop, tag) in out.iter_mut().zip(&tags[..count]) {
                    *hop = key::vid_of(*tag).and_then(|vid| table.get(vid));
                }
            }
            Table::Vni(..) => out.iter_mut().zip(packets).for_each(|(hop, packet)| *hop = self.next_hop(&packet)),
        }
    }
}
