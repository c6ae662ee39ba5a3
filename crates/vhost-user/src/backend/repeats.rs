//! Memory regions added more than once.
//!
//! QEMU before 8.1 sends every message once per queue pair of a device, these included. So a region counts how often it
//! was added, and goes when it has been removed as often.

use virtqueue::memory::Region;

/// A region as identified by ADD_MEM_REG and REM_MEM_REG.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RegionId {
    pub(super) guest_addr: u64,
    pub(super) user_addr: u64,
    pub(super) len: u64,
}

impl RegionId {
    pub(super) fn of(region: &Region) -> RegionId {
        RegionId { guest_addr: region.guest_addr, user_addr: region.user_addr, len: region.len }
    }
}

/// Regions added more than once, with the number of repetitions. The file is not compared: a frontend that adds another
/// file at the same place without removing the region first keeps the old file.
#[derive(Default)]
pub(super) struct Repeats(Vec<(RegionId, u32)>);

impl Repeats {
    /// Counts a repetition of `region`, which is already mapped.
    pub(super) fn add(&mut self, region: RegionId) {
        match self.0.iter_mut().find(|(known, _)| *known == region) {
            Some((_, times)) => *times = times.saturating_add(1),
            None => self.0.push((region, 1)),
        }
    }

    /// Removes one repetition of `region`; returns false if there is none.
    pub(super) fn remove(&mut self, region: RegionId) -> bool {
        let Some(at) = self.0.iter().position(|(known, _)| *known == region) else { return false };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.swap_remove(at);
        }
        true
    }
}
