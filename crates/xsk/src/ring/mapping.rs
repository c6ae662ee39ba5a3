//! The mapped memory of a ring.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::{ffi, io};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A mapping of one of a socket's rings, unmapped on drop. It keeps the socket open: until all rings are unmapped,
/// closing the socket releases nothing.
#[derive(Debug)]
pub(super) struct RingMapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value is its only owner.
unsafe impl Send for RingMapping {}
// SAFETY: a shared reference to a mapping gives no access to it.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    pub(super) fn new(socket: BorrowedFd<'_>, at: u64, bytes: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: without MAP_FIXED a new mapping overlaps nothing that exists.
        let base = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, socket, at)? };
        let this = Self { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, bytes };
        // A child process must not keep the queue bound.
        // SAFETY: nothing changes for this process.
        unsafe { madvise(base, bytes, Advice::LinuxDontFork)? };
        Ok(this)
    }

    /// Returns the `count` values at `offset`, if they lie in the mapping.
    pub(super) fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let (offset, len) = (offset as usize, count * size_of::<T>());
        if len > self.bytes || offset > self.bytes - len || !offset.is_multiple_of(align_of::<T>()) {
            return Err(io::Error::other(format!("a ring of {} bytes has a part at {offset}", self.bytes)));
        }
        // SAFETY: just checked to lie inside the mapping.
        Ok(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        let base: *mut ffi::c_void = self.base.as_ptr().cast();
        // SAFETY: this value owns the mapping, and the ring in it owns this value.
        let unmapped = unsafe { munmap(base, self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
