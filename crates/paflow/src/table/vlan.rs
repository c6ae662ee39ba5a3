//! 4096 VIDs in 8 KB, so that the table stays in the L1 cache.

use super::nfi::Nfi;

const VIDS: usize = 4096;

/// A table from VID to next hop.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct VlanTable([Option<Nfi>; VIDS]);

const _: () = assert!(size_of::<VlanTable>() == 8 << 10);

impl VlanTable {
    /// Creates an empty table.
    pub const fn new() -> VlanTable {
        VlanTable([None; VIDS])
    }

    /// Returns the next hop of `vid`. Ignores the upper four bits.
    #[inline(always)]
    pub fn get(&self, vid: u16) -> Option<Nfi> {
        self.0[vid as usize % VIDS]
    }

    /// Sets the next hop of `vid`, or removes it with `None`. Ignores the upper four bits. Returns the previous one.
    pub fn set(&mut self, vid: u16, next_hop: Option<Nfi>) -> Option<Nfi> {
        std::mem::replace(&mut self.0[vid as usize % VIDS], next_hop)
    }

    /// Returns all VIDs with a next hop, in ascending order.
    pub fn entries(&self) -> impl Iterator<Item = (u16, Nfi)> + '_ {
        self.0.iter().enumerate().filter_map(|(vid, next_hop)| Some((vid as u16, (*next_hop)?)))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0 = [None; VIDS];
    }
}

impl Default for VlanTable {
    fn default() -> Self {
        VlanTable::new()
    }
}
