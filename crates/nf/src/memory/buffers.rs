//! Equal pieces of an arena.
//!
//! Each begins 12 bytes before a cache line, so that the frame behind the virtio header begins on one. A header on the
//! line of its frame's first bytes would make that frame one line longer on its way between two processors; apart from
//! it the header's line stays where it is, as a header hardly ever changes.

use std::ptr::NonNull;
use std::sync::Arc;
use virtqueue::NET_HEADER;
use virtqueue::memory::{Arena, Memory};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Bytes of a buffer's first line before the buffer begins.
const LEAD: usize = LINE - NET_HEADER as usize;

/// Buffers of equal size in one run of an arena, numbered from zero.
#[derive(Debug)]
pub struct Buffers {
    host: NonNull<u8>,
    addr: u64,
    size: usize,
    stride: usize,
    count: u16,
    /// Keeps the run mapped.
    _memory: Arc<Memory>,
}

// SAFETY: the pointer is to a shared mapping that `_memory` keeps alive; access to a buffer is by whoever owns it,
// on whatever thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Sets aside `count` buffers of at least `size` bytes, zeroed, on cache lines of their own; `None` if the arena is
    /// too small.
    pub fn allocate(arena: &mut Arena, count: u16, size: usize) -> Option<Buffers> {
        let stride = Self::stride(size);
        let len = stride as u64 * u64::from(count);
        let addr = arena.allocate(len, LINE as u64)?;
        let host = arena.host(addr, len)?;
        let size = (LEAD + size).next_multiple_of(LINE) - LEAD;
        // SAFETY: the first of the buffers is longer than this.
        let host = unsafe { host.add(LEAD) };
        Some(Buffers { host, addr: addr + LEAD as u64, size, stride, count, _memory: arena.memory().clone() })
    }

    /// Bytes of arena that `count` buffers of `size` bytes take, alignment included.
    pub fn footprint(count: u16, size: usize) -> u64 {
        Self::stride(size) as u64 * u64::from(count) + LINE as u64
    }

    /// An odd number of lines from one buffer to the next: headers then spread over all sets of a cache, where a power
    /// of two would crowd them into a few.
    fn stride(size: usize) -> usize {
        ((LEAD + size).div_ceil(LINE) | 1) * LINE
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Bytes of one buffer.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Guest address of a buffer, for a descriptor.
    #[inline(always)]
    pub fn addr(&self, index: u16) -> u64 {
        debug_assert!(index < self.count);
        self.addr + u64::from(index) * self.stride as u64
    }

    /// Host address of a buffer, for prefetching.
    #[inline(always)]
    pub fn ptr(&self, index: u16) -> *mut u8 {
        debug_assert!(index < self.count);
        self.host.as_ptr().wrapping_add(usize::from(index) * self.stride)
    }

    /// The bytes of a buffer, to be read.
    ///
    /// # Safety
    /// The device must not have the buffer for writing, and nothing else may write to it while the slice lives.
    #[inline(always)]
    pub unsafe fn bytes(&self, index: u16) -> &[u8] {
        assert!(index < self.count, "there is no buffer {index}");
        // SAFETY: the run is mapped for `count` strides of at least `size` bytes, initialised (a new memfd is zeros),
        // and by the caller's promise nobody writes.
        unsafe { std::slice::from_raw_parts(self.ptr(index), self.size) }
    }

    /// The bytes of a buffer, to be written.
    ///
    /// # Safety
    /// The device must not have the buffer, and nothing else may refer to its bytes while the slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // Buffers are owned one by one, as the caller promises.
    pub unsafe fn bytes_mut(&self, index: u16) -> &mut [u8] {
        assert!(index < self.count, "there is no buffer {index}");
        // SAFETY: as in `bytes`, and by the caller's promise the buffer is ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(index), self.size) }
    }
}
