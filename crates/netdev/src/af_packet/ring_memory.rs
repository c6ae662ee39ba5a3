//! The mapped memory of a ring.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::{ffi, io};

use packet::MappedMemory;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A shared mapping of a packet socket's ring, or memory of this process beside it, unmapped on drop. The kernel keeps the socket open
/// as long as its ring is mapped.
#[derive(Debug)]
pub(super) struct RingMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value is its only owner.
unsafe impl Send for RingMemory {}

// SAFETY: it only tells addresses; code that follows them argues for itself.
unsafe impl Sync for RingMemory {}

// SAFETY: the whole range stays mapped until this is dropped. The receive ring writes to a frame before it lends the frame only.
unsafe impl MappedMemory for RingMemory {
    fn range_of(&self, start: *const u8) -> Option<Range<usize>> {
        let first = self.base.addr().get();
        Some(first..first + self.bytes).filter(|range| range.contains(&start.addr()))
    }
}

impl RingMemory {
    /// Maps the ring of `bytes` bytes that was set up on `socket`.
    pub(super) fn new(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED a new mapping replaces no existing one.
        let base =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, socket, 0)? };
        Self::mapped(base, bytes)
    }

    /// Maps memory of this process only, which costs none until it is used.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        // SAFETY: as above.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        Self::mapped(base, bytes)
    }

    fn mapped(base: *mut ffi::c_void, bytes: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// Returns the address of the byte at `offset`, with at least `room` bytes of mapping from there.
    #[inline]
    pub(super) fn at<T>(&self, offset: usize, room: usize) -> *mut T {
        debug_assert!(offset.checked_add(room).is_some_and(|end| end <= self.bytes), "{offset} + {room}");
        // Every offset comes from the layout or from the kernel, and both stay inside the mapping; a wrong one yields a
        // wrong pointer here, but only an unsafe block can follow it.
        self.base.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped once. Everything lent from it borrowed the ring that
        // has this mapping, or is leased with it, so no borrow is left. A failure would leak the mapping, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<ffi::c_void>(), self.bytes) };
    }
}
