//! Chunks of the switch's own, of one direction of one queue.

use super::Reach;
use std::sync::Arc;
use virtqueue::Segment;
use virtqueue::memory::Arena;

/// Chunks that lie one after the other.
pub struct Pool {
    pub(super) arena: Arc<Arena>,
    /// Where the first one begins in the arena, and by which address the kernel knows it.
    first: u64,
    start: u64,
    size: u32,
    count: u16,
}

impl Pool {
    /// `count` chunks from the arena's address `first` on, if they are all in `reach`.
    pub fn new(arena: Arc<Arena>, reach: &Reach, first: u64, count: u16) -> Option<Pool> {
        let size = reach.umem().chunks().size;
        let len = u64::from(size) * u64::from(count);
        let host = arena.host(first, len)?.addr().get() as u64;
        let start = reach.address(host, u32::try_from(len).ok()?)?;
        Some(Pool { arena, first, start, size, count })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Bytes of each.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// By which address the kernel knows a chunk.
    #[inline(always)]
    pub(super) fn address(&self, index: u16) -> u64 {
        self.start + u64::from(index) * u64::from(self.size)
    }

    /// Where a chunk begins in the arena.
    #[inline(always)]
    pub(super) fn place(&self, index: u16) -> u64 {
        self.first + u64::from(index) * u64::from(self.size)
    }

    /// Which chunk has the byte at this address, if it is one of these.
    #[inline(always)]
    pub(super) fn index(&self, address: u64) -> Option<u16> {
        let index = address.checked_sub(self.start)? / u64::from(self.size);
        (index < self.count.into()).then_some(index as u16)
    }

    /// The bytes that the kernel has written to an address in one of these.
    #[inline(always)]
    pub(super) fn segment(&self, address: u64, len: u32) -> Option<Segment<'_>> {
        self.arena.segment(self.first + address.checked_sub(self.start)?, len)
    }
}
