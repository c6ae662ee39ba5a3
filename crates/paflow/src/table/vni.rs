//! A hash table of 24-bit VNIs, of fixed size.

use super::nfi::Nfi;

/// Maximum capacity of a table: all VNIs.
const MAX_ENTRIES: usize = 1 << 24;

/// Reason why an entry can't be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VniTableError {
    /// VNIs have 24 bits.
    #[error("VNI {0} is beyond 16777215, the largest one")]
    Range(u32),
    /// The table is at capacity.
    #[error("the aggregation table is full with {0} VNIs; remove some, or make it larger")]
    Full(usize),
}

/// One entry in 64 bits: bit 63 is set if it is used, bits 16..40 are the VNI, and the low 16 bits the next hop.
#[derive(Clone, Copy, Debug)]
struct Slot(u64);

impl Slot {
    const FREE: Slot = Slot(0);

    const fn new(vni: u32, next_hop: Nfi) -> Slot {
        Slot(1 << 63 | (vni as u64) << 16 | next_hop.get() as u64)
    }

    #[inline(always)]
    const fn is(self, vni: u32) -> bool {
        self.0 >> 16 == (1 << 47 | vni as u64)
    }

    #[inline(always)]
    const fn next_hop(self) -> Option<Nfi> {
        Nfi::new(self.0 as u16)
    }

    const fn vni(self) -> u32 {
        (self.0 >> 16) as u32 & 0xff_ffff
    }

    #[inline(always)]
    const fn is_free(self) -> bool {
        self.0 == 0
    }
}

/// A table from VNI to next hop: open addressing with linear probing, at most half full. Lookups and changes never allocate.
#[derive(Clone, Debug)]
pub struct VniTable {
    slots: Box<[Slot]>,
    used: usize,
    capacity: usize,
    shift: u32,
}

impl VniTable {
    /// Creates a table for `capacity` entries, clamped to between one and the number of VNIs.
    pub fn new(capacity: usize) -> VniTable {
        let capacity = capacity.clamp(1, MAX_ENTRIES);
        let slots = (capacity * 2).next_power_of_two();
        VniTable { slots: vec![Slot::FREE; slots].into(), used: 0, capacity, shift: 32 - slots.trailing_zeros() }
    }

    /// Returns the home slot of `vni`: the upper bits of its product with 2^32 divided by the golden ratio (Knuth, TAOCP 6.4).
    #[inline(always)]
    fn home(&self, vni: u32) -> usize {
        (vni.wrapping_mul(0x9e37_79b9) >> self.shift) as usize
    }

    /// Returns the slot of `vni`, or the free one where it would go. There is always a free one.
    #[inline(always)]
    fn find(&self, vni: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(vni);
        while !self.slots[at & mask].is_free() && !self.slots[at & mask].is(vni) {
            at += 1;
        }
        at & mask
    }

    /// Returns the next hop of `vni`.
    #[inline]
    pub fn get(&self, vni: u32) -> Option<Nfi> {
        self.slots[self.find(vni)].next_hop()
    }

    /// Sets the next hop of `vni`. Returns the previous one.
    pub fn insert(&mut self, vni: u32, next_hop: Nfi) -> Result<Option<Nfi>, VniTableError> {
        if vni >= 1 << 24 {
            return Err(VniTableError::Range(vni));
        }
        let at = self.find(vni);
        let before = self.slots[at];
        if before.is_free() {
            if self.used == self.capacity {
                return Err(VniTableError::Full(self.capacity));
            }
            self.used += 1;
        }
        self.slots[at] = Slot::new(vni, next_hop);
        Ok(before.next_hop())
    }

    /// Removes `vni`. Returns its next hop.
    pub fn remove(&mut self, vni: u32) -> Option<Nfi> {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(vni);
        let before = self.slots[hole].next_hop()?;
        // Entries after the hole move up, unless that would put them before their home slot: no tombstones needed.
        let mut at = (hole + 1) & mask;
        while !self.slots[at].is_free() {
            let home = self.home(self.slots[at].vni());
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[hole] = Slot::FREE;
        self.used -= 1;
        Some(before)
    }

    /// Returns the number of VNIs with a next hop.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Reports whether no VNI has a next hop.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::FREE);
        self.used = 0;
    }

    /// Returns all VNIs with a next hop, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Nfi)> + '_ {
        self.slots.iter().filter_map(|slot| Some((slot.vni(), slot.next_hop()?)))
    }
}
