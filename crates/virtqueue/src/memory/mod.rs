//! Guest memory: extents into which the regions shared by a guest are mapped.
//!
//! An extent is one run of guest addresses without a gap, mapped at one run of host addresses, whatever the number of
//! its regions; a buffer may therefore cross from one region into the next. Nothing here ever creates a Rust reference
//! into an extent: a guest may change any byte at any moment.

mod arena;
mod budget;
mod error;
mod fault;
mod guard;
mod map;
mod region;
mod span;
mod writer;

pub use arena::Arena;
pub use error::{MAX_GUEST, MAX_REGIONS, MemoryError};
pub use guard::{Absent, prepare};
pub use region::{Missing, Region};
pub use span::{Part, Span};
pub(crate) use writer::Writer;
pub use writer::{DirtyLog, Unlogged};

use map::ExtentMapping;
use packet::MappedMemory;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// One run of guest addresses, readable and writable at one run of host addresses.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    len: u64,
    host: NonNull<u8>,
}

impl Extent {
    const NONE: Extent = Extent { start: 0, len: 0, host: NonNull::dangling() };

    /// Returns the host address of `[addr, addr + len)` if all of it lies in this extent.
    #[inline(always)]
    fn translate(&self, addr: u64, len: u64) -> Option<NonNull<u8>> {
        let offset = addr.wrapping_sub(self.start);
        if offset < self.len && len <= self.len - offset {
            // SAFETY: offset < self.len, and the mapping behind `host` is `self.len` bytes long.
            Some(unsafe { self.host.add(offset as usize) })
        } else {
            None
        }
    }
}

/// A region by its address in the frontend's address space.
#[derive(Clone, Copy, Debug)]
struct UserRange {
    start: u64,
    len: u64,
    guest_addr: u64,
}

/// Whole pages that are mapped in this process, as long as their [`Memory`] is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Address of the first one.
    pub start: NonNull<u8>,
    /// Length of all of them in bytes.
    pub len: u64,
    /// Size of each in bytes.
    pub page: u64,
}

/// The memory that a guest shares with us; immutable, so that a running queue can hold it.
///
/// Adding or removing a region makes a new `Memory`, which shares the mappings that did not change.
#[derive(Debug)]
pub struct Memory {
    /// The largest extent, which nearly every look-up hits.
    first: Extent,
    /// Sorted by start, padded with empty extents to a power of two, so that every look-up takes the same number of steps.
    extents: Box<[Extent]>,
    users: Box<[UserRange]>,
    regions: Vec<Region>,
    mappings: Vec<Arc<ExtentMapping>>,
}

// SAFETY: the pointers are to shared mappings that live as long as `mappings`; every access to them is by raw pointer
// or atomic, which is equally valid from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above; a `Memory` never changes after it was built.
unsafe impl Sync for Memory {}

// SAFETY: the range is that of one of `mappings`, which stay mapped as long as this exists: they never change. Pages
// that vanish leave no hole, as `fault` puts zeros there. There is no reference into them, and any thread may read them.
unsafe impl MappedMemory for Memory {
    fn range_of(&self, start: *const u8) -> Option<Range<usize>> {
        self.mappings.iter().find_map(|mapping| {
            let range = mapping.host().addr()..mapping.host().addr() + mapping.len() as usize;
            range.contains(&start.addr()).then_some(range)
        })
    }
}

impl Memory {
    /// Maps `regions`, after checking each one against its file and against the others.
    pub fn map(regions: Vec<Region>) -> Result<Self, MemoryError> {
        Self::build(regions, &[])
    }

    /// Returns the same memory with `region` added (virtio memory hot-plug).
    pub fn with_region(&self, region: Region) -> Result<Self, MemoryError> {
        let mut regions = self.regions.clone();
        regions.push(region);
        Self::build(regions, &self.mappings)
    }

    /// Returns the same memory without the region at `guest_addr` with exactly this `user_addr` and `len`.
    pub fn without_region(&self, guest_addr: u64, user_addr: u64, len: u64) -> Result<Self, MemoryError> {
        let mut regions = self.regions.clone();
        let found = regions
            .iter()
            .position(|r| r.guest_addr == guest_addr && r.user_addr == user_addr && r.len == len)
            .ok_or(MemoryError::NoSuchRegion { guest_addr, len })?;
        regions.remove(found);
        Self::build(regions, &self.mappings)
    }

    /// Returns the same memory, also addressable by our own host addresses: for a device in this process that receives
    /// buffers by their host address.
    pub fn also_by_host(&self) -> Memory {
        let own = |e: &Extent| Extent { start: e.host.addr().get() as u64, ..*e };
        let known: Vec<Extent> = self.extents.iter().filter(|e| e.len > 0).copied().collect();
        let extents = known.iter().map(own).chain(known.iter().copied()).collect();
        let (users, regions, mappings) = (self.users.clone(), self.regions.clone(), self.mappings.clone());
        Memory { first: self.first, extents: Self::searchable(extents), users, regions, mappings }
    }

    /// Sorts and pads the extents for [`Memory::translate_elsewhere`].
    fn searchable(mut extents: Vec<Extent>) -> Box<[Extent]> {
        extents.sort_by_key(|extent| extent.start);
        let padding = Extent { start: u64::MAX, ..Extent::NONE };
        extents.resize(extents.len().next_power_of_two(), padding);
        extents.into()
    }

    fn build(mut regions: Vec<Region>, known: &[Arc<ExtentMapping>]) -> Result<Self, MemoryError> {
        region::check(&mut regions)?;
        let user = |r: &Region| UserRange { start: r.user_addr, len: r.len, guest_addr: r.guest_addr };
        let users = regions.iter().map(user).collect();
        let mut mappings = Vec::new();
        for run in region::runs(&regions) {
            let mapping = match known.iter().find(|m| m.holds(run)) {
                Some(mapping) => mapping.clone(),
                None => Arc::new(ExtentMapping::new(run)?),
            };
            mappings.push(mapping);
        }
        let extent = |m: &Arc<ExtentMapping>| {
            let host = NonNull::new(m.host()).expect("nothing is mapped at address zero");
            Extent { start: m.guest_addr(), len: m.len(), host }
        };
        let extents: Vec<Extent> = mappings.iter().map(extent).collect();
        let first = extents.iter().copied().max_by_key(|e| e.len).unwrap_or(Extent::NONE);
        Ok(Memory { first, extents: Self::searchable(extents), users, regions, mappings })
    }

    /// Returns the host address of the guest buffer `[addr, addr + len)`, or `None` unless one extent maps all of it.
    #[inline(always)]
    pub fn translate(&self, addr: u64, len: u64) -> Option<NonNull<u8>> {
        match self.first.translate(addr, len) {
            None => self.translate_elsewhere(addr, len),
            found => found,
        }
    }

    /// Translates by the last extent that starts at or before `addr`, in the same number of steps for every address.
    #[cold]
    fn translate_elsewhere(&self, addr: u64, len: u64) -> Option<NonNull<u8>> {
        let mut at = 0;
        let mut step = self.extents.len() / 2;
        while step > 0 {
            at += if self.extents[at + step].start <= addr { step } else { 0 };
            step /= 2;
        }
        self.extents[at].translate(addr, len)
    }

    /// Returns the guest address of the byte at `host`, if that is in this memory.
    pub(crate) fn guest_addr_of_host(&self, host: *const u8) -> Option<u64> {
        self.mappings.iter().find_map(|mapping| {
            let offset = (host.addr() as u64).wrapping_sub(mapping.host().addr() as u64);
            (offset < mapping.len()).then(|| mapping.guest_addr() + offset)
        })
    }

    /// Translates an address in the frontend's address space, by which vhost-user names rings, into a guest address.
    pub fn guest_addr(&self, user_addr: u64) -> Option<u64> {
        self.users.iter().find_map(|range| {
            let offset = user_addr.wrapping_sub(range.start);
            (offset < range.len).then(|| range.guest_addr + offset)
        })
    }

    /// Returns the regions, sorted by guest address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns the pages of each region, as they are mapped in this process.
    pub fn pages(&self) -> impl Iterator<Item = Pages> {
        self.regions.iter().map(|region| {
            let host = self.translate(region.guest_addr, region.len).expect("a region lies in one extent");
            let page = region.page_size();
            let lead = region.offset % page;
            let start = host.as_ptr().wrapping_sub(lead as usize);
            let start = NonNull::new(start).expect("nothing is mapped at address zero");
            Pages { start, len: (lead + region.len).next_multiple_of(page), page }
        })
    }

    /// Returns how much [`Memory::fill`] will allocate, at most.
    pub fn missing(&self) -> Missing {
        let unfilled: Vec<&Region> = self.mappings.iter().flat_map(|mapping| mapping.unfilled()).collect();
        region::missing(&unfilled)
    }

    /// Allocates the pages that the memory files lack, or refuses them, so that no frame has to. From then on nothing is allocated
    /// here: a page that vanishes breaks the memory ([`Memory::is_broken`]), if the kernel has userfaultfd(2) for this process.
    /// Files that are not memory ([`Region::is_memory`]) are left as they are. Calls `go_on` with the bytes of each step before the
    /// step, which takes about a millisecond.
    ///
    /// # Errors
    /// Those of `go_on`, and [`MemoryError::Fill`]. Pages allocated so far stay in the files.
    pub fn fill<E: From<MemoryError>>(
        &self,
        absent: Absent,
        mut go_on: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.mappings.iter().try_for_each(|mapping| mapping.fill(absent, &mut go_on))
    }

    /// Reports whether pages have vanished: they then read as zeros, and the guest must be disconnected.
    #[inline(always)]
    pub fn is_broken(&self) -> bool {
        self.mappings.iter().any(|m| m.is_broken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::region::tests::{memfd, pages};

    fn region(guest_addr: u64, len: u64, offset: u64) -> Region {
        Region { guest_addr, user_addr: guest_addr + 0x7000_0000_0000, len, offset, file: memfd(offset + len) }
    }

    #[test]
    fn whole_pages_of_regions_are_told() {
        let page = pages(1);
        let memory = Memory::map(vec![region(page, page, 0), region(pages(4), 0x800, page + 0x800)]).unwrap();
        let found: Vec<Pages> = memory.pages().collect();
        assert_eq!(found.iter().map(|pages| (pages.len, pages.page)).collect::<Vec<_>>(), [(page, page), (page, page)]);
        assert_eq!(found[0].start, memory.translate(page, 1).unwrap());
        let within = memory.translate(pages(4), 1).unwrap().addr().get() - found[1].start.addr().get();
        assert_eq!(within, 0x800, "the page begins before the region");
    }

    #[test]
    fn adjacent_regions_are_one_extent() {
        let m = Memory::map(vec![region(pages(2), pages(1), pages(3)), region(pages(1), pages(1), 0)]).unwrap();
        let p = m.translate(pages(2) - 0x10, 0x20).expect("a buffer may cross regions");
        assert_eq!(m.translate(pages(2), 1).unwrap().as_ptr() as usize, p.as_ptr() as usize + 0x10);
        assert!(m.translate(pages(2) - 0x10, pages(1) + 0x11).is_none(), "one byte too many");
        assert!(m.translate(pages(1) - 1, 1).is_none());
        assert!(m.translate(pages(3), 0).is_none());
    }

    #[test]
    fn every_extent_is_found() {
        let regions: Vec<_> = (0..9).map(|i| region(0x10_0000 + i * 0x3000, 0x1000 * (1 + i % 2), 0)).collect();
        let m = Memory::map(regions).unwrap();
        for i in 0..9 {
            let start = 0x10_0000 + i * 0x3000;
            let len = 0x1000 * (1 + i % 2);
            assert!(m.translate(start, len).is_some(), "extent {i}");
            assert!(m.translate(start + len - 1, 1).is_some());
            assert!(m.translate(start + len, 1).is_none());
            assert!(m.translate(start - 1, 1).is_none());
        }
        assert!(m.translate(u64::MAX, 1).is_none());
        assert!(m.translate(0, u64::MAX).is_none());
    }

    #[test]
    fn no_regions_is_no_memory() {
        let m = Memory::map(vec![]).unwrap();
        assert!(m.translate(0, 0).is_none());
        assert!(m.guest_addr(0).is_none());
    }

    #[test]
    fn hot_plug_keeps_the_mappings_that_stay() {
        let m = Memory::map(vec![region(0x1000, 0x1000, 0)]).unwrap();
        let before = m.translate(0x1000, 1).unwrap();
        let more = m.with_region(region(0x8000, 0x1000, 0)).unwrap();
        assert_eq!(more.translate(0x1000, 1).unwrap(), before);
        assert!(more.translate(0x8fff, 1).is_some());
        let less = more.without_region(0x8000, 0x8000 + 0x7000_0000_0000, 0x1000).unwrap();
        assert!(less.translate(0x8000, 1).is_none());
        assert_eq!(less.translate(0x1000, 1).unwrap(), before);
        assert!(less.without_region(0x8000, 0, 0x1000).is_err());
    }

    #[test]
    fn one_that_also_goes_by_our_own_addresses() {
        let m = Memory::map(vec![region(0x1000, 0x1000, 0), region(0x8000, 0x1000, 0)]).unwrap();
        let both = m.also_by_host();
        for guest in [0x1000, 0x8fff] {
            let host = m.translate(guest, 1).unwrap();
            let own = host.as_ptr().addr() as u64;
            assert_eq!((both.translate(guest, 1), both.translate(own, 1)), (Some(host), Some(host)));
            assert_eq!(both.guest_addr_of_host(host.as_ptr()), Some(guest), "the guest's address, not our own");
            assert!(m.translate(own, 1).is_none());
        }
    }

    #[test]
    fn user_addresses_are_offset_by_region() {
        let m = Memory::map(vec![region(0x1000, 0x1000, 0)]).unwrap();
        assert_eq!(m.guest_addr(0x7000_0000_1010), Some(0x1010));
        assert_eq!(m.guest_addr(0x7000_0000_2000), None);
        assert_eq!(m.guest_addr(0x1010), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs signals")]
    fn a_file_that_shrinks_breaks_its_own_memory_only() {
        let short = region(pages(1), pages(4), 0);
        let file = short.file.clone();
        let m = Memory::map(vec![short, region(0x10_0000, 0x1000, 0)]).unwrap();
        let other = Memory::map(vec![region(0x1000, 0x1000, 0)]).unwrap();
        write(&m, pages(1), 6);
        write(&m, pages(3), 7);
        rustix::fs::ftruncate(&*file, pages(1)).unwrap();
        assert_eq!(read(&m, pages(3)), 0);
        assert_eq!(read(&m, pages(1)), 6, "the rest of it stays");
        assert!(m.is_broken());
        assert!(!other.is_broken());
    }

    fn write(memory: &Memory, addr: u64, byte: u8) {
        // SAFETY: it is mapped; the test owns the file.
        unsafe { memory.translate(addr, 1).unwrap().write_volatile(byte) };
    }

    fn read(memory: &Memory, addr: u64) -> u8 {
        // SAFETY: as above.
        unsafe { memory.translate(addr, 1).unwrap().read_volatile() }
    }

    /// Returns the bytes that are allocated for a region's file.
    #[cfg(not(miri))]
    fn allocated(region: &Region) -> u64 {
        rustix::fs::fstat(&*region.file).unwrap().st_blocks as u64 * 512
    }

    #[cfg(not(miri))]
    fn fill(memory: &Memory) -> Result<(), MemoryError> {
        memory.fill(Absent::Allocate, |_| Ok(()))
    }

    #[test]
    #[cfg(not(miri))]
    fn what_is_missing_is_allocated_once() {
        let missing = |m: &Memory| (m.missing().pages, m.missing().page_tables);
        let len = 16 << 20;
        let new = region(pages(1), len, 0);
        let m = Memory::map(vec![new.clone()]).unwrap();
        write(&m, pages(5), 1);
        assert_eq!(allocated(&new), pages(1));
        assert_eq!(missing(&m), (len - pages(1), len / pages(1) * 8));
        let mut steps = 0;
        m.fill(Absent::Allocate, |_| {
            steps += 1;
            Ok::<(), MemoryError>(())
        })
        .unwrap();
        assert_eq!((allocated(&new), missing(&m), steps), (len, (0, 0), 8));
        assert_eq!(read(&m, pages(5)), 1);
        // Only the added region lacks pages.
        let more = m.with_region(region(0x1000_0000, pages(1), 0)).unwrap();
        assert_eq!(missing(&more), (pages(1), 8));
        fill(&more).unwrap();
        assert_eq!(missing(&more), (0, 0));
    }

    #[test]
    #[cfg(not(miri))]
    fn a_step_may_be_the_last() {
        let new = region(0x1000, 16 << 20, 0);
        let m = Memory::map(vec![new.clone()]).unwrap();
        let mut steps = 0;
        let stopped = m.fill(Absent::Allocate, |_| {
            steps += 1;
            if steps < 3 { Ok(()) } else { Err(MemoryError::TooMany(7)) }
        });
        assert!(matches!(stopped, Err(MemoryError::TooMany(7))));
        assert_eq!(allocated(&new), 4 << 20);
    }

    #[test]
    #[cfg(not(miri))]
    fn a_hole_is_refused() {
        use rustix::fs::{FallocateFlags, fallocate};
        let new = region(pages(1), pages(4), 0);
        let m = Memory::map(vec![new.clone()]).unwrap();
        let fill = || Memory::map(vec![new.clone()]).unwrap().fill(Absent::Refuse, |_| Ok::<(), MemoryError>(()));
        // Pages behind the end are no pages of the region.
        fallocate(&*new.file, FallocateFlags::KEEP_SIZE, pages(4), pages(8)).unwrap();
        [1, 2, 3].into_iter().for_each(|page| write(&m, pages(page), 1));
        assert_eq!(m.missing().pages, pages(1));
        assert!(matches!(fill(), Err(MemoryError::Fill { .. })));
        assert_eq!(allocated(&new), pages(11), "nothing was allocated");
        write(&m, pages(4), 1);
        fill().unwrap();
    }

    #[test]
    #[cfg(not(miri))]
    fn a_hole_breaks_the_memory_and_is_not_filled() {
        use rustix::fs::{FallocateFlags, fallocate};
        let (whole, holed) = (region(pages(1), pages(4), 0), region(pages(16), pages(4), 0));
        let [one, other] = [&whole, &holed].map(|region| Memory::map(vec![region.clone()]).unwrap());
        [&one, &other].into_iter().for_each(|memory| fill(memory).unwrap());
        write(&other, pages(19), 5);
        fallocate(&*holed.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, pages(1), pages(1)).unwrap();
        assert!(!other.is_broken());
        write(&other, pages(17), 1);
        assert!(other.is_broken() && !one.is_broken());
        assert_eq!(allocated(&holed), pages(3));
        assert_eq!(read(&other, pages(19)), 5, "the rest of it stays");
    }

    #[test]
    #[cfg(not(miri))]
    fn what_continues_elsewhere_is_filled_too() {
        let file = memfd(pages(3));
        let part = |guest_addr, offset| Region { file: file.clone(), offset, ..region(guest_addr, pages(1), 0) };
        // One run of three parts; two of them continue each other in the file.
        let m = Memory::map(vec![part(pages(1), pages(2)), part(pages(2), 0), part(pages(3), pages(1))]).unwrap();
        fill(&m).unwrap();
        assert_eq!(allocated(&m.regions()[0]), pages(3));
    }
}
