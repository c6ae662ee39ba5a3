//! Chunks of the switch's own memory, for one direction of one queue whose device fills or reads them.

use packet::Segment;
use std::sync::Arc;
use virtqueue::memory::Arena;

/// Consecutive chunks.
pub struct Pool {
    pub(super) arena: Arc<Arena>,
    /// Address of the first chunk in the arena, and its address for the device.
    first: u64,
    start: u64,
    size: u32,
    count: u16,
}

impl Pool {
    /// Returns `count` chunks of `size` bytes from the arena's address `first` on. `address` returns the device's address of bytes at an
    /// address of this process, if it reaches them.
    pub fn new(
        arena: Arc<Arena>,
        first: u64,
        size: u32,
        count: u16,
        address: impl FnOnce(u64, u32) -> Option<u64>,
    ) -> Option<Pool> {
        let len = u64::from(size) * u64::from(count);
        let host = arena.host(first, len)?.addr().get() as u64;
        let start = address(host, u32::try_from(len).ok()?)?;
        Some(Pool { arena, first, start, size, count })
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Returns the size of each chunk in bytes.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the device's address of a chunk.
    #[inline(always)]
    pub(super) fn address(&self, index: u16) -> u64 {
        self.start + u64::from(index) * u64::from(self.size)
    }

    /// Returns the arena's address of a chunk.
    #[inline(always)]
    pub(super) fn place(&self, index: u16) -> u64 {
        self.first + u64::from(index) * u64::from(self.size)
    }

    /// Returns the chunk that contains this address of the device's, if there is one.
    #[inline(always)]
    pub(super) fn index(&self, address: u64) -> Option<u16> {
        let index = address.checked_sub(self.start)? / u64::from(self.size);
        (index < self.count.into()).then_some(index as u16)
    }

    /// Returns the arena's address of an address of the device's in these chunks.
    #[inline(always)]
    pub(super) fn in_arena(&self, address: u64) -> Option<u64> {
        Some(self.first + address.checked_sub(self.start)?)
    }

    /// Copies a frame into as many of the `free` chunks as it needs, which must be available. Passes each chunk to `put`, with the number of
    /// its bytes, and whether the frame goes on in another one.
    #[cold]
    pub(super) fn scatter<'b>(
        &self,
        segments: impl Iterator<Item = Segment<'b>>,
        free: &mut Vec<u16>,
        mut put: impl FnMut(u16, u32, bool),
    ) {
        let mut last: Option<(u16, u32)> = None;
        for segment in segments {
            let mut rest = segment;
            while !rest.is_empty() {
                let (index, filled) = match last {
                    Some(last) if last.1 < self.size => last,
                    full => {
                        full.into_iter().for_each(|(index, filled)| put(index, filled, true));
                        (free.pop().expect("there is one for every part of a frame"), 0)
                    }
                };
                let (now, later) = rest.split_at(self.size - filled);
                self.arena.gather(self.place(index) + u64::from(filled), std::iter::once(now));
                last = Some((index, filled + now.len()));
                rest = later;
            }
        }
        last.into_iter().for_each(|(index, filled)| put(index, filled, false));
    }

    /// Returns the bytes that the device wrote to an address in these chunks.
    #[inline(always)]
    pub(super) fn segment(&self, address: u64, len: u32) -> Option<Segment<'_>> {
        self.arena.segment(self.in_arena(address)?, len)
    }
}
