//! Buffers owned by this process, for frames that do not come from a ring: from a file descriptor, a file, a fault injector.
#![allow(unsafe_code)]

use crate::frame::{Burst, MappedMemory, Segment};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::Arc;

/// A fixed number of buffers, handed out in turn and all released at once when their burst ends.
pub struct Buffers {
    bytes: Arc<[UnsafeCell<u8>]>,
    room: usize,
    lent: Cell<usize>,
}

impl Buffers {
    /// Creates `count` buffers of `room` bytes each.
    pub fn new(count: usize, room: usize) -> Buffers {
        // SAFETY: a cell of a byte may be zero.
        let bytes = unsafe { Arc::new_zeroed_slice(count * room).assume_init() };
        Buffers { bytes, room, lent: Cell::new(0) }
    }

    /// Returns the memory of the buffers, for frames that are leased. Such frames must have ended before [`Buffers::release`].
    pub fn memory(&self) -> Arc<dyn MappedMemory> {
        Arc::new(Memory(self.bytes.clone()))
    }

    /// Passes the next free buffer to `fill`, which returns how many bytes it wrote from the start. Returns these; `None` if no buffer is
    /// free or `fill` returns `None`.
    pub fn fill(&self, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Segment<'_>> {
        let at = self.lent.get() * self.room;
        let cells = self.bytes.get(at..at + self.room).filter(|_| self.room > 0)?;
        let start = UnsafeCell::raw_get(cells.as_ptr());
        // Counted before `fill` runs, so that a nested call cannot get the same buffer.
        self.lent.set(self.lent.get() + 1);
        // SAFETY: the buffer lies in `bytes`; no one else has a reference to it, because buffers are handed out once
        // until `release`, and nothing but a burst, which `release` ends, holds a segment of it.
        let filled = fill(unsafe { std::slice::from_raw_parts_mut(start, self.room) });
        match filled {
            // SAFETY: the first `len` bytes of the buffer, which lives as long as `self`.
            Some(len) => Some(unsafe { Segment::new(start, len.min(self.room) as u32) }),
            None => {
                self.lent.set(self.lent.get() - 1);
                None
            }
        }
    }

    /// Adds a frame to `burst` whose bytes `fill` writes; returns false if no buffer is free or `fill` returns `None`.
    pub fn push<'q>(&'q self, burst: &mut Burst<'_, 'q>, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let segment = self.fill(fill);
        segment.inspect(|&s| burst.push(s)).is_some()
    }

    /// Adds `frame` to `burst`, with bytes inserted at offset `at` that `fill` writes; returns as [`Buffers::push`].
    pub fn push_inserting<'q>(
        &'q self,
        burst: &mut Burst<'_, 'q>,
        frame: Segment<'q>,
        at: u32,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let (before, after) = frame.split_at(at);
        self.fill(fill).is_some_and(|middle| burst.push_segments([before, middle, after]))
    }

    /// Frees all buffers. The bursts that they were added to must have ended.
    pub fn release(&self) {
        self.lent.set(0);
    }
}

/// The bytes of buffers, which may outlive these.
struct Memory(Arc<[UnsafeCell<u8>]>);

// SAFETY: it tells a range of addresses, and touches no byte.
unsafe impl Send for Memory {}

// SAFETY: as above.
unsafe impl Sync for Memory {}

// SAFETY: the bytes stay where they are until the last owner is gone. `Buffers` makes references to buffers that are free only.
unsafe impl MappedMemory for Memory {
    fn range_of(&self, start: *const u8) -> Option<Range<usize>> {
        let first = self.0.as_ptr().addr();
        Some(first..first + self.0.len()).filter(|range| range.contains(&start.addr()))
    }
}

// SAFETY: cells of plain bytes; a `Buffers` moves between threads only as a whole.
unsafe impl Send for Buffers {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BurstStorage, LeasedFrames};

    #[test]
    fn leased_frames_stay_when_their_buffers_are_gone() {
        let buffers = Buffers::new(2, 20);
        let mut leased = LeasedFrames::new([buffers.memory()].into());
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for byte in [1, 2] {
            assert!(buffers.push(&mut burst, |room| {
                room.fill(byte);
                Some(room.len())
            }));
        }
        assert!(!buffers.push(&mut burst, |_| panic!("no buffer is free")));
        let first = burst.frames().as_slice()[0].first().as_ptr();
        leased.add(burst.frames());
        drop(buffers);
        let group = leased.groups().next().expect("two frames");
        assert_eq!(group.as_slice()[0].first().as_ptr(), first, "it was not copied");
        assert!(group.as_slice().iter().zip([1, 2]).all(|(frame, byte)| frame.first().read() == Some([byte; 20])));
    }
}
