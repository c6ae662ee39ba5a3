//! Memory that a device may write frames to: passes memory of `virtqueue` on to `dpdk`.
//!
//! `virtqueue` owns all memory that frames lie in, and `dpdk` lends memory to devices without knowing its owner. This is the only place
//! where the two meet, and where the safety conditions of `dpdk` are argued.
#![allow(unsafe_code)]

use ::dpdk::{Device, Region};
use std::sync::Arc;
use virtqueue::driver::Reach;
use virtqueue::memory::Memory;

/// A memory that a device reaches until this is dropped.
pub(super) struct SharedMemory {
    memory: Arc<Memory>,
    areas: Vec<Area>,
    /// Dropped before the memory may be.
    _regions: Vec<Region>,
}

/// Bytes that a device reaches, by addresses of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    len: u64,
}

impl Area {
    #[inline(always)]
    fn holds(&self, at: u64, len: u32) -> bool {
        let offset = at.wrapping_sub(self.start);
        offset < self.len && u64::from(len) <= self.len - offset
    }
}

impl SharedMemory {
    /// Lets `device` reach all of `memory`.
    pub(super) fn new(device: &Device, memory: &Arc<Memory>) -> Result<SharedMemory, String> {
        let (mut areas, mut regions) = (Vec::new(), Vec::new());
        for pages in memory.pages() {
            let (start, len, page) = (pages.start.as_ptr(), pages.len as usize, pages.page as usize);
            // SAFETY: these are whole pages of a shared mapping, which the memory keeps, and the memory is the owner. No reference to a
            // byte of it exists: the same bytes are shared with others who may write to them at any time, so virtqueue touches them by
            // raw pointers and atomics only.
            let region = unsafe { device.share(start, len, page, memory.clone()) };
            regions.push(region.map_err(|error| error.to_string())?);
            areas.push(Area { start: start.addr() as u64, len: pages.len });
        }
        Ok(SharedMemory { memory: memory.clone(), areas, _regions: regions })
    }

    /// Reports whether it is this memory.
    pub(super) fn is_of(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }
}

/// Where a device reaches buffers of guests.
#[derive(Clone, Copy)]
pub(super) struct Reaches<'a> {
    pub(super) memories: &'a [Arc<SharedMemory>],
    /// Bytes at the beginning of a buffer that are not the device's.
    pub(super) skip: u32,
    /// Bytes from the beginning of a buffer that the device may write to, or its length if that is more.
    pub(super) room: u32,
    /// Maximum length of a buffer.
    pub(super) longest: u32,
}

impl Reach for Reaches<'_> {
    /// Returns the same address, after the bytes that are skipped.
    #[inline(always)]
    fn address(&self, at: u64, len: u32) -> Option<u64> {
        let room = len.max(self.room);
        let holds = |memory: &Arc<SharedMemory>| memory.areas.iter().any(|area| area.holds(at, room));
        (len <= self.longest && self.memories.iter().any(holds)).then(|| at + u64::from(self.skip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_in_an_area() {
        let area = Area { start: 0x1000, len: 0x1000 };
        assert!(area.holds(0x1000, 0x1000) && area.holds(0x1fff, 1));
        for (at, len) in [(0xfff, 1), (0x1000, 0x1001), (0x1f00, 0x101), (0x2000, 0)] {
            assert!(!area.holds(at, len), "{at:#x}, {len}");
        }
    }
}
