//! Mapping of a run of regions at one run of host addresses.

use super::budget::Share;
use super::error::MemoryError;
use super::fault::Watch;
use super::guard::{self, Absent};
use super::region::Region;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flags that reserve addresses before files are mapped there. Miri maps no files: under it a mapping is private memory.
#[cfg(not(miri))]
const RESERVE: (ProtFlags, MapFlags) = (ProtFlags::empty(), MapFlags::PRIVATE.union(MapFlags::NORESERVE));
#[cfg(miri)]
const RESERVE: (ProtFlags, MapFlags) = (ProtFlags::READ.union(ProtFlags::WRITE), MapFlags::PRIVATE);

/// Bytes that are allocated at a time, while other threads that map memory wait: about a millisecond.
const STEP: u64 = 2 << 20;

/// The regions of one extent, mapped back to back; unmapped when dropped.
#[derive(Debug)]
pub(super) struct ExtentMapping {
    regions: Vec<Region>,
    reserved: *mut u8,
    reserved_len: usize,
    host: *mut u8,
    len: u64,
    /// Dropped before the memory is unmapped: the handler takes faults in it only while it is watched.
    watch: Option<Watch>,
    /// Tells whether all of it exists, see [`ExtentMapping::fill`].
    is_filled: AtomicBool,
    _share: Share,
}

/// A part of a run that is mapped at once, in whole pages.
struct FilePart<'r> {
    /// The first of its regions, which all continue each other in one file.
    head: &'r Region,
    /// Bytes from the run's first byte to its own.
    at: u64,
    /// Bytes of its first page before that.
    lead: u64,
    /// Length of all its pages.
    span: u64,
    page: u64,
}

/// Cuts a run into the parts that are mapped at once.
fn file_parts(run: &[Region]) -> impl Iterator<Item = FilePart<'_>> {
    run.chunk_by(|a, b| a.continues_in_file(b)).map(|part| {
        let (head, tail) = (&part[0], &part[part.len() - 1]);
        let page = head.page_size();
        let lead = head.offset % page;
        let span = (lead + tail.offset + tail.len - head.offset).next_multiple_of(page);
        FilePart { head, at: head.guest_addr - run[0].guest_addr, lead, span, page }
    })
}

// SAFETY: the mapping is shared memory that is only ever touched through raw pointers and atomics.
unsafe impl Send for ExtentMapping {}
// SAFETY: as above, and nothing in it changes after it was created.
unsafe impl Sync for ExtentMapping {}

impl ExtentMapping {
    /// Maps a run as cut by [`super::region::runs`]. Checked regions are so short that no sum or rounding wraps around.
    pub(super) fn new(run: &[Region]) -> Result<Self, MemoryError> {
        let first = &run[0];
        let last = &run[run.len() - 1];
        let len = last.guest_addr + last.len - first.guest_addr;
        let failed = |r: &Region| {
            let (guest_addr, len) = (r.guest_addr, r.len);
            move |source| MemoryError::Map { guest_addr, len, source }
        };
        // Huge pages are mapped whole and at their own alignment: the host address is congruent to the file offset, and
        // the reservation has room for the rest of the first and the last page.
        let page = run.iter().map(Region::page_size).max().unwrap_or(4096);
        let lead = first.offset % page;
        let reserved_len = (lead + len).next_multiple_of(page) + page;
        let share = Share::take(reserved_len)?;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), reserved_len as usize, RESERVE.0, RESERVE.1) }
            .map_err(failed(first))? as *mut u8;
        let pad = (reserved as u64).next_multiple_of(page) - reserved as u64;
        // SAFETY: pad < page, and lead + len + page fit into the reservation.
        let host = unsafe { reserved.add((pad + lead) as usize) };
        // Whole pages: the replacement of a broken mapping must cover huge pages fully.
        // SAFETY: pad bytes lie before `host` in the reservation.
        let (mapped, mapped_len) =
            (unsafe { reserved.add(pad as usize) }, (lead + len).next_multiple_of(page) as usize);
        let mut mapping = ExtentMapping {
            regions: run.to_vec(),
            reserved,
            reserved_len: reserved_len as usize,
            host,
            len,
            watch: None,
            is_filled: AtomicBool::new(false),
            _share: share,
        };
        for part in file_parts(run).filter(|_| !cfg!(miri)) {
            // SAFETY: [at - lead, at - lead + span) lies in the reservation, which is ours and unused: runs have no
            // gaps, seams lie on pages, and the reservation was rounded to the largest page.
            unsafe {
                mmap(
                    mapping.address(&part).cast(),
                    part.span as usize,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                    &*part.head.file,
                    part.head.offset - part.lead,
                )
            }
            .map_err(failed(part.head))?;
        }
        mapping.watch = Some(Watch::new(mapped, mapped_len, page)?);
        Ok(mapping)
    }

    /// Returns the address of a part's first page.
    fn address(&self, part: &FilePart<'_>) -> *mut u8 {
        // SAFETY: `host + at` is in the reservation, and `lead` bytes before it are, too: the reservation starts at a page.
        unsafe { self.host.add(part.at as usize).sub(part.lead as usize) }
    }

    /// Returns the regions of memory files, unless all of them exist already.
    pub(super) fn unfilled(&self) -> impl Iterator<Item = &Region> {
        let is_filled = self.is_filled.load(Ordering::Relaxed);
        self.regions.iter().filter(move |region| !is_filled && region.is_memory())
    }

    /// Maps all pages of memory files, and allocates those that they lack, or fails if there are any. From then on nothing is allocated
    /// here: a page that vanishes breaks the memory. Other files may have no pages to allocate, and are left as they are. Calls `go_on`
    /// before each step of at most [`STEP`] bytes or one page.
    pub(super) fn fill<E: From<MemoryError>>(
        &self,
        absent: Absent,
        mut go_on: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_filled.load(Ordering::Relaxed) {
            return Ok(());
        }
        for part in file_parts(&self.regions).filter(|part| part.head.is_memory()) {
            let start = self.address(&part);
            let (guest_addr, len) = (part.head.guest_addr, part.span);
            let failed = |source| MemoryError::Fill { guest_addr, len, source };
            let guard = || guard::guard(start, part.span as usize).map_err(failed);
            if absent == Absent::Refuse {
                // A page that is absent now, or vanishes meanwhile, can't be populated.
                guard()?.then_some(()).ok_or(MemoryError::Unguarded { guest_addr })?;
            }
            let mut is_populated = true;
            for at in (0..part.span).step_by(STEP.max(part.page) as usize) {
                let step = STEP.max(part.page).min(part.span - at);
                go_on(step)?;
                // SAFETY: the range is part of our mapping, in whole pages.
                is_populated &= guard::populate(unsafe { start.add(at as usize) }, step as usize).map_err(failed)?;
            }
            // Where nothing could be allocated, frames have to.
            if absent == Absent::Allocate && is_populated {
                guard()?;
            }
        }
        self.is_filled.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn guest_addr(&self) -> u64 {
        self.regions[0].guest_addr
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn host(&self) -> *mut u8 {
        self.host
    }

    /// Reports whether this mapping is of exactly these regions.
    pub(super) fn holds(&self, run: &[Region]) -> bool {
        let same = |a: &Region, b: &Region| {
            a.guest_addr == b.guest_addr
                && a.len == b.len
                && a.offset == b.offset
                && std::sync::Arc::ptr_eq(&a.file, &b.file)
        };
        self.regions.len() == run.len() && self.regions.iter().zip(run).all(|(a, b)| same(a, b))
    }

    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_broken)
    }
}

impl Drop for ExtentMapping {
    fn drop(&mut self) {
        self.watch = None;
        // SAFETY: the reservation is ours, and every holder of a pointer into it holds the `Memory` that holds us.
        let unmapped = unsafe { munmap(self.reserved.cast(), self.reserved_len) };
        debug_assert!(unmapped.is_ok());
    }
}
