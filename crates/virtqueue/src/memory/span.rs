//! Several memories in one run of addresses, for a kernel interface that takes only one.
//!
//! The run is mapped in addition to the extents that the rings use. It starts and ends with an unused guard page, so
//! that a chunk that reaches slightly over the edge of a memory is still in the run.

use super::Memory;
use super::budget::Share;
use super::error::{MAX_ALL, MemoryError};
use super::region::{Region, usual_page};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::cmp::Reverse;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Returns the size of the guard before and after the memories, in bytes: a page.
fn guard() -> u64 {
    usual_page()
}

/// One region in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of its first page in the span.
    pub start: u64,
    /// Length of all its pages in bytes.
    pub len: u64,
    /// Size of its pages: `start` is aligned to it, as an offset and as an address.
    pub page: u64,
    /// Bytes of the first page before the region.
    lead: u64,
    /// Address of the region in its memory's extent.
    host: u64,
    /// Length of the region in bytes.
    room: u64,
}

/// Several memories in one run of addresses, unmapped when dropped. It holds the memories.
#[derive(Debug)]
pub struct Span {
    base: NonNull<u8>,
    len: u64,
    parts: Vec<Part>,
    reserved: *mut [u8],
    _share: Share,
    _memories: Vec<Arc<Memory>>,
}

// SAFETY: shared memory that is only handed out as an address; nothing changes after it was created.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// Maps all regions of `memories`.
    pub fn new(memories: &[Arc<Memory>]) -> Result<Span, MemoryError> {
        let mut regions: Vec<(&Region, u64, u64)> = Vec::new();
        for memory in memories {
            for region in memory.regions() {
                let extent = memory.translate(region.guest_addr, region.len);
                let extent = extent.expect("a region lies in one extent").addr().get() as u64;
                regions.push((region, region.page_size(), extent));
            }
        }
        // The largest pages first: then each region lies at a multiple of its page size, without gaps.
        regions.sort_by_key(|&(_, page, _)| Reverse(page));
        let guard = guard();
        let largest = regions.first().map_or(guard, |r| r.1);
        let mut parts = Vec::new();
        let mut end = guard;
        for &(region, page, extent) in &regions {
            let lead = region.offset % page;
            let len = (lead + region.len).next_multiple_of(page);
            parts.push(Part { start: end, len, page, lead, host: extent, room: region.len });
            end = end.checked_add(len).filter(|&end| end <= MAX_ALL).ok_or(too_long(region))?;
        }
        let len = end + guard;
        let reserved_len = (len + largest) as usize;
        let share = Share::take(reserved_len as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let reserved =
            unsafe { mmap_anonymous(ptr::null_mut(), reserved_len, access, MapFlags::PRIVATE | MapFlags::NORESERVE) };
        let failed = |source| MemoryError::Map { guest_addr: 0, len, source };
        let reserved = reserved.map_err(failed)?.cast::<u8>();
        let skip = (reserved as u64 + guard).next_multiple_of(largest) - guard - reserved as u64;
        // SAFETY: skip < largest, so skip + len bytes fit into the reservation.
        let base = unsafe { reserved.add(skip as usize) };
        let base = NonNull::new(base).expect("a mapping does not start at zero");
        let reserved = ptr::slice_from_raw_parts_mut(reserved, reserved_len);
        let span = Span { base, len, parts, reserved, _share: share, _memories: memories.to_vec() };
        for (part, (region, ..)) in span.parts.iter().zip(&regions) {
            // SAFETY: the part lies in the reservation, which is ours and unused, and on a page of its file.
            unsafe {
                mmap(
                    span.base.add(part.start as usize).as_ptr().cast(),
                    part.len as usize,
                    access,
                    MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                    &*region.file,
                    region.offset - part.lead,
                )
            }
            .map_err(|source| MemoryError::Map {
                guest_addr: region.guest_addr,
                len: region.len,
                source,
            })?;
        }
        Ok(span)
    }

    /// Returns the first byte, which is page-aligned.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length in bytes. All of it is readable and writable, as long as the files behind it are.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the regions in it.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the offset in the span of `len` bytes at an address of one of the extents, if they lie in one region.
    #[inline(always)]
    pub fn offset(&self, extent_addr: u64, len: u64) -> Option<u64> {
        self.parts.iter().find_map(|part| {
            let at = extent_addr.wrapping_sub(part.host);
            (at < part.room && len <= part.room - at).then(|| part.start + part.lead + at)
        })
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and every user of its address holds this value.
        let unmapped = unsafe { munmap(self.reserved.cast(), self.reserved.len()) };
        debug_assert!(unmapped.is_ok());
    }
}

fn too_long(region: &Region) -> MemoryError {
    MemoryError::BadLength { guest_addr: region.guest_addr, len: region.len }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::memory::region::tests::{memfd, pages};

    fn region(guest_addr: u64, len: u64, offset: u64) -> Region {
        Region { guest_addr, user_addr: guest_addr, len, offset, file: memfd(offset + len) }
    }

    fn extent(memory: &Memory, addr: u64) -> u64 {
        memory.translate(addr, 1).unwrap().addr().get() as u64
    }

    #[test]
    fn what_is_written_to_an_extent_is_in_the_span() {
        let a = Arc::new(Memory::map(vec![region(0x1000, 0x2000, 0), region(0x8000, 0x1800, 0x800)]).unwrap());
        let b = Arc::new(Memory::map(vec![region(0x1000, 0x1000, 0x3000)]).unwrap());
        let span = Span::new(&[a.clone(), b.clone()]).unwrap();
        assert_eq!(span.parts().len(), 3);
        for (n, (memory, addr)) in
            [(&a, 0x1000), (&a, 0x2fff), (&a, 0x8000), (&a, 0x97ff), (&b, 0x1fff)].iter().enumerate()
        {
            let at = span.offset(extent(memory, *addr), 1).unwrap();
            let byte = memory.translate(*addr, 1).unwrap();
            // SAFETY: both are mapped; the test owns the files.
            unsafe {
                byte.write_volatile(n as u8 + 1);
                assert_eq!(span.base().add(at as usize).read_volatile(), n as u8 + 1);
            }
        }
    }

    #[test]
    fn only_runs_within_a_region_are_found() {
        let page = pages(1);
        let a = Arc::new(Memory::map(vec![region(page, page, 0), region(2 * page, page, 0)]).unwrap());
        let span = Span::new(std::slice::from_ref(&a)).unwrap();
        let at = extent(&a, page);
        assert_eq!(span.offset(at, page), Some(guard()));
        assert_eq!(span.offset(at + 1, page), None, "the next region may lie elsewhere");
        assert_eq!(span.offset(at + 2 * page, 1), None);
        assert_eq!(span.offset(at - 1, 1), None);
        assert_eq!(span.len(), 2 * page + 2 * guard());
    }

    #[test]
    fn guards_can_be_written_to() {
        let a = Arc::new(Memory::map(vec![region(0x1000, 0x1000, 0)]).unwrap());
        let span = Span::new(std::slice::from_ref(&a)).unwrap();
        for at in [0, span.len() - 1] {
            // SAFETY: in the span.
            unsafe { span.base().add(at as usize).write_volatile(1) };
        }
        assert!(span.base().addr().get().is_multiple_of(guard() as usize));
        assert_eq!(Span::new(&[]).unwrap().len(), 2 * guard());
    }
}
