//! Buffers of equal size in an arena.
//!
//! Each begins 12 bytes before a cache line boundary, so that the frame after the virtio header begins on a line. If the
//! header shared a line with the frame's first bytes, the frame would take one more line to move between two processors.
//! The header's separate line rarely moves, as a header rarely changes.

use std::ptr::NonNull;
use std::sync::Arc;
use vhost_user::frontend::Member;
use virtqueue::NET_HEADER;
use virtqueue::exchange::HEADROOM;
use virtqueue::memory::{Arena, Memory};
use zcopy::PAGE;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Bytes of a buffer's first line before the buffer begins.
const LEAD: usize = LINE - NET_HEADER as usize;

/// Buffers of equal size in one run of memory, numbered from zero.
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

// SAFETY: the pointer is to a shared mapping that `_memory` keeps alive; only a buffer's owner accesses it, on any
// thread.
unsafe impl Send for Buffers {}
// SAFETY: as above. Those who have a reference get bytes only by a promise that a buffer is theirs.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// Allocates `count` zeroed buffers of at least `size` bytes, which share no cache line; `None` if the arena is too small.
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

    /// Returns all buffers of a function's group, each with the bytes before it.
    pub fn of_group(member: &Member) -> Buffers {
        let (geometry, memory) = (member.grant.geometry, member.memory.clone());
        let start = geometry.offset(0) - u64::from(HEADROOM);
        let host = memory.translate(Member::ADDRESS, geometry.bytes()).expect("the group's memory holds its buffers");
        // SAFETY: the first buffer lies in this memory, which was just found to be mapped, after its headroom.
        let host = unsafe { host.add(start as usize) };
        let size = (HEADROOM + geometry.room()) as usize;
        let (stride, count) = (geometry.stride() as usize, geometry.count());
        Buffers { host, addr: Member::ADDRESS + start, size, stride, count, _memory: memory }
    }

    /// Returns `count` pages of an area from page `first`, each a buffer. They keep the area.
    pub fn of_pages(area: &Arc<Memory>, first: u32, count: u16) -> Option<Buffers> {
        let addr = Self::AREA + u64::from(first) * PAGE as u64;
        let host = area.translate(addr, u64::from(count) * PAGE as u64)?;
        Some(Buffers { host, addr, size: PAGE, stride: PAGE, count, _memory: area.clone() })
    }

    /// Guest address of an area of pages: after all arenas.
    pub const AREA: u64 = Member::ADDRESS;

    /// Returns the same buffers without their first `bytes`.
    pub fn behind(self, bytes: u32) -> Buffers {
        let bytes = bytes as usize;
        assert!(bytes <= self.size, "buffers are longer than that");
        // SAFETY: each buffer is mapped for its size, which is not less.
        let host = unsafe { self.host.add(bytes) };
        Buffers { host, addr: self.addr + bytes as u64, size: self.size - bytes, ..self }
    }

    /// Returns the bytes of arena that `count` buffers of `size` bytes take, alignment included.
    pub fn footprint(count: u16, size: usize) -> u64 {
        Self::stride(size) as u64 * u64::from(count) + LINE as u64
    }

    /// Returns the distance between buffers, an odd number of lines: headers then spread over all sets of a cache, while a
    /// power of two would map them to a few.
    fn stride(size: usize) -> usize {
        ((LEAD + size).div_ceil(LINE) | 1) * LINE
    }

    /// Returns the number of buffers.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the size of one buffer in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the guest address of a buffer, for a descriptor.
    #[inline(always)]
    pub fn addr(&self, index: u16) -> u64 {
        debug_assert!(index < self.count);
        self.addr + u64::from(index) * self.stride as u64
    }

    /// Returns the host address of a buffer, for prefetching.
    #[inline(always)]
    pub fn ptr(&self, index: u16) -> *mut u8 {
        debug_assert!(index < self.count);
        self.host.as_ptr().wrapping_add(usize::from(index) * self.stride)
    }

    /// Returns the bytes of a buffer for reading.
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

    /// Returns the bytes of a buffer for writing.
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
