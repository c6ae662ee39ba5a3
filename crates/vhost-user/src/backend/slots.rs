//! Memory regions added and removed one by one.
//!
//! QEMU before 8.1 sends every message once per queue pair of a device, these included. So a region counts how often it
//! was added, and goes when it has been removed as often.

use super::device::{Device, Refused};
use rustix::fs::fstat;
use virtqueue::memory::{Memory, Region};

/// A region as identified by ADD_MEM_REG and REM_MEM_REG.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) guest_addr: u64,
    pub(super) user_addr: u64,
    pub(super) len: u64,
}

/// Regions added more than once, with the number of repetitions. The file is not compared: a frontend that adds another
/// file at the same place without removing the region first keeps the old file.
#[derive(Default)]
pub(super) struct Repeats(Vec<(Place, u32)>);

impl Repeats {
    /// Counts a repetition of `place`, which is already mapped.
    fn add(&mut self, place: Place) {
        match self.0.iter_mut().find(|(known, _)| *known == place) {
            Some((_, times)) => *times = times.saturating_add(1),
            None => self.0.push((place, 1)),
        }
    }

    /// Removes one repetition of `place`; returns false if there is none.
    fn remove(&mut self, place: Place) -> bool {
        let Some(at) = self.0.iter().position(|(known, _)| *known == place) else { return false };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.swap_remove(at);
        }
        true
    }
}

/// Reports whether both are the same parts of the same files at the same places.
fn is_same(had: &[Region], wanted: &[Region]) -> bool {
    let file = |region: &Region| fstat(&region.file).map(|stat| (stat.st_dev, stat.st_ino));
    let place = |region: &Region| (region.guest_addr, region.user_addr, region.len, region.offset);
    let same = |a: &Region, b: &Region| place(a) == place(b) && matches!((file(a), file(b)), (Ok(a), Ok(b)) if a == b);
    had.len() == wanted.len() && wanted.iter().all(|wanted| had.iter().any(|had| same(had, wanted)))
}

impl Device {
    /// Adds a region, or counts a repetition.
    pub(super) fn add_region(&mut self, region: Region) -> Result<(), Refused> {
        let place = Place { guest_addr: region.guest_addr, user_addr: region.user_addr, len: region.len };
        let same = |r: &Region| (r.guest_addr, r.user_addr, r.len) == (place.guest_addr, place.user_addr, place.len);
        if self.memory().is_some_and(|memory| memory.regions().iter().any(same)) {
            self.repeats.add(place);
            return Ok(());
        }
        self.check_memory(std::slice::from_ref(&region))?;
        self.set_memory(|before| match before {
            Some(memory) => memory.with_region(region),
            None => Memory::map(vec![region]),
        })
    }

    /// Removes a region, or one of its repetitions.
    pub(super) fn remove_region(&mut self, place: Place) -> Result<(), Refused> {
        if self.repeats.remove(place) {
            return Ok(());
        }
        let Place { guest_addr, user_addr, len } = place;
        self.set_memory(|before| match before {
            Some(memory) => memory.without_region(guest_addr, user_addr, len),
            None => Memory::map(Vec::new())?.without_region(guest_addr, user_addr, len),
        })
    }

    /// Replaces all regions.
    pub(super) fn set_regions(&mut self, regions: Vec<Region>) -> Result<(), Refused> {
        self.check_memory(&regions)?;
        self.repeats = Repeats::default();
        if self.memory().is_some_and(|memory| is_same(memory.regions(), &regions)) {
            return Ok(());
        }
        self.set_memory(|_| Memory::map(regions))
    }
}
