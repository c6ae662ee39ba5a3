//! Memory owned by this process and shared with a device: a driver's rings and buffers.

use super::error::MemoryError;
use super::region::{Region, usual_page};
use super::{Memory, map::ExtentMapping};
use packet::copy::Copier;
use packet::{MappedMemory, Segment};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

const HUGE_PAGE: u64 = 2 << 20;

/// A memfd, mapped once; guest addresses are offsets into it plus [`Arena::BASE`].
#[derive(Debug)]
pub struct Arena {
    memory: Arc<Memory>,
    huge: bool,
    next: u64,
    copier: Copier,
}

impl Arena {
    /// First guest address. Not zero, so that an unwritten descriptor points nowhere.
    pub const BASE: u64 = 1 << 20;

    /// Creates an arena of at least `len` bytes, on huge pages if `huge` is set and they are available, else on normal ones.
    pub fn new(len: u64, huge: bool) -> Result<Arena, MemoryError> {
        let failed = |source| MemoryError::Map { guest_addr: Self::BASE, len, source };
        if huge && let Ok(memory) = Self::try_huge(len) {
            return Ok(Arena { memory: Arc::new(memory), huge: true, next: 0, copier: Copier::detect() });
        }
        let len = len.next_multiple_of(usual_page());
        let file = memory_file(len).map_err(failed)?;
        let memory = Memory::map(vec![Self::region(len, file)])?;
        Ok(Arena { memory: Arc::new(memory), huge: false, next: 0, copier: Copier::detect() })
    }

    fn try_huge(len: u64) -> Result<Memory, MemoryError> {
        let failed = |source| MemoryError::Map { guest_addr: Self::BASE, len, source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd_create("millrace", flags).map_err(failed)?;
        let len = len.next_multiple_of(HUGE_PAGE);
        ftruncate(&file, len).map_err(failed)?;
        // Reserves the pages now, so that a lack of pages does not cause a fault later.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len).map_err(failed)?;
        seal(&file).map_err(failed)?;
        Memory::map(vec![Self::region(len, file)])
    }

    fn region(len: u64, file: OwnedFd) -> Region {
        // The user address is arbitrary, as nothing else uses it; offsets serve.
        Region { guest_addr: Self::BASE, user_addr: Self::BASE, len, offset: 0, file: Arc::new(file) }
    }

    /// Makes [`Arena::gather`] copy nothing but still return the length.
    #[cfg(feature = "analysis")]
    pub fn omit_copies(&mut self) {
        self.copier = Copier::omitting();
    }

    /// Allocates `len` bytes at a multiple of `align`; returns their guest address, or `None` if the arena is full.
    pub fn allocate(&mut self, len: u64, align: u64) -> Option<u64> {
        let at = (Self::BASE + self.next).next_multiple_of(align);
        self.memory.translate(at, len)?;
        self.next = at + len - Self::BASE;
        Some(at)
    }

    /// Returns the host address of an allocated range.
    #[inline(always)]
    pub fn host(&self, addr: u64, len: u64) -> Option<NonNull<u8>> {
        self.memory.translate(addr, len)
    }

    /// Returns bytes that a device filled, to be sent on without a copy.
    #[inline(always)]
    pub fn segment(&self, addr: u64, len: u32) -> Option<Segment<'_>> {
        let ptr = self.host(addr, len.into())?;
        // SAFETY: just checked to lie in the arena, which stays mapped as long as it is borrowed.
        Some(unsafe { Segment::new(ptr.as_ptr(), len) })
    }

    /// Prefetches the cache line at `addr` for writing.
    #[inline(always)]
    pub fn prefetch_write(&self, addr: u64) {
        if let Some(ptr) = self.host(addr, 1) {
            packet::copy::prefetch_write(ptr.as_ptr());
        }
    }

    /// Copies `segments` to `addr`, one after the other; returns the number of bytes, or `None` if they do not fit.
    #[inline]
    pub fn gather<'s>(&self, addr: u64, segments: impl Iterator<Item = Segment<'s>> + Clone) -> Option<u32> {
        let len = segments.clone().map(|s| s.len()).sum();
        let mut to = self.host(addr, u64::from(len))?.as_ptr();
        for segment in segments {
            let part = segment.len() as usize;
            // SAFETY: the parts add up to `len`, which was checked to fit; nothing holds a reference into the arena.
            unsafe {
                self.copier.copy(to, segment.as_ptr(), part);
                to = to.add(part);
            }
        }
        Some(len)
    }

    /// Returns the arena as a memory table to share with a device.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Reports whether it lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }
}

// SAFETY: the range is one of its memory, which it holds as long as it exists.
unsafe impl MappedMemory for Arena {
    fn range_of(&self, start: *const u8) -> Option<Range<usize>> {
        self.memory.range_of(start)
    }
}

/// Creates a memory file of `len` bytes.
#[cfg(not(miri))]
fn memory_file(len: u64) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("millrace", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len)?;
    seal(&file)?;
    Ok(file)
}

/// Guarantees that the file cannot shrink: others map this memory, too.
fn seal(file: &OwnedFd) -> rustix::io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::SEAL)
}

/// Creates a file of `len` bytes: Miri has no memory files, and maps none, so any file will do.
#[cfg(miri)]
pub(super) fn memory_file(len: u64) -> rustix::io::Result<OwnedFd> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("millrace-{}-{count}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path);
    let made = file.and_then(|file| file.set_len(len).and(std::fs::remove_file(path)).and(Ok(file.into())));
    made.map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
}

// A device may share the arena while our queues use it: both hold the same mapping.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<ExtentMapping>();
};
