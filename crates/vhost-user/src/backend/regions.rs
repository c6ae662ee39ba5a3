//! Memory regions: set all at once, or added and removed one by one.

use super::device::{Device, Refused};
use super::repeats::{RegionId, Repeats};
use rustix::fs::fstat;
use virtqueue::memory::{Memory, Region};

/// Reports whether both are the same parts of the same files at the same places.
fn is_same(had: &[Region], wanted: &[Region]) -> bool {
    // Two files of one device may be different memory.
    let file = |region: &Region| match region.device() {
        Some(_) => None,
        None => fstat(&region.file).ok().map(|stat| (stat.st_dev, stat.st_ino)),
    };
    let place = |region: &Region| (region.guest_addr, region.user_addr, region.len, region.offset);
    let same = |a: &Region, b: &Region| place(a) == place(b) && file(a).is_some() && file(a) == file(b);
    had.len() == wanted.len() && wanted.iter().all(|wanted| had.iter().any(|had| same(had, wanted)))
}

impl Device {
    /// Adds a region, or counts a repetition.
    pub(super) fn add_region(&mut self, region: Region) -> Result<(), Refused> {
        let id = RegionId::of(&region);
        if self.memory().is_some_and(|memory| memory.regions().iter().any(|known| RegionId::of(known) == id)) {
            self.repeats.add(id);
            return Ok(());
        }
        self.check_memory(std::slice::from_ref(&region))?;
        let memory = match self.memory() {
            Some(memory) => memory.with_region(region),
            None => Memory::map(vec![region]),
        };
        self.set_memory(memory?)
    }

    /// Removes a region, or one of its repetitions.
    pub(super) fn remove_region(&mut self, id: RegionId) -> Result<(), Refused> {
        if self.repeats.remove(id) {
            return Ok(());
        }
        let RegionId { guest_addr, user_addr, len } = id;
        let memory = match self.memory() {
            Some(memory) => memory.without_region(guest_addr, user_addr, len),
            None => Memory::map(Vec::new())?.without_region(guest_addr, user_addr, len),
        };
        self.set_memory(memory?)
    }

    /// Replaces all regions.
    pub(super) fn set_regions(&mut self, regions: Vec<Region>) -> Result<(), Refused> {
        self.check_memory(&regions)?;
        self.repeats = Repeats::default();
        if self.memory().is_some_and(|memory| is_same(memory.regions(), &regions)) {
            return Ok(());
        }
        self.set_memory(Memory::map(regions)?)
    }
}
