//! Buffers owned by this process, for frames that do not come from a ring: from a file descriptor, a file, a fault injector.
#![allow(unsafe_code)]

use crate::frame::{Burst, MappedMemory, Segment};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::Arc;

/// Alignment of packed buffers, a cache line.
const PACKED: usize = 64;

/// Buffers, handed out in turn and all released at once when their burst ends.
pub struct Buffers {
    bytes: Arc<[UnsafeCell<u8>]>,
    room: usize,
    /// Whether the next buffer begins where the bytes of the last one end, and not its room.
    is_packed: bool,
    /// Bytes handed out.
    lent: Cell<usize>,
}

impl Buffers {
    /// Creates `count` buffers of `room` bytes each.
    pub fn new(count: usize, room: usize) -> Buffers {
        Buffers::of(count * room, room, false)
    }

    /// Creates buffers of `room` bytes each, of which a frame takes no more than the cache lines that it fills: so there is one until the
    /// frames together have filled `bytes` bytes.
    pub fn packed(bytes: usize, room: usize) -> Buffers {
        Buffers::of(bytes + room, room, true)
    }

    fn of(bytes: usize, room: usize, is_packed: bool) -> Buffers {
        // SAFETY: a cell of a byte may be zero.
        let bytes = unsafe { Arc::new_zeroed_slice(bytes).assume_init() };
        Buffers { bytes, room, is_packed, lent: Cell::new(0) }
    }

    /// Returns the memory of the buffers, for frames that are leased. Such frames must have ended before [`Buffers::release`].
    pub fn memory(&self) -> Arc<dyn MappedMemory> {
        Arc::new(Memory(self.bytes.clone()))
    }

    /// Passes the next free buffer to `fill`, which returns how many bytes it wrote from the start. Returns these; `None` if no buffer is
    /// free or `fill` returns `None`.
    pub fn fill(&self, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Segment<'_>> {
        let at = self.lent.get();
        let end = at + self.room;
        let cells = self.bytes.get(at..end).filter(|_| self.room > 0)?;
        let start = UnsafeCell::raw_get(cells.as_ptr());
        // Counted before `fill` runs, so that a nested call cannot get the same buffer.
        self.lent.set(end);
        // SAFETY: the buffer lies in `bytes`; no one else has a reference to it, because buffers are handed out once
        // until `release`, and nothing but a burst, which `release` ends, holds a segment of it.
        let filled = fill(unsafe { std::slice::from_raw_parts_mut(start, self.room) });
        let len = filled.map(|len| len.min(self.room));
        let taken = match len {
            None => 0,
            Some(len) if self.is_packed => len.next_multiple_of(PACKED).min(self.room),
            Some(_) => self.room,
        };
        // A nested call keeps the buffer that it got.
        if self.lent.get() == end {
            self.lent.set(at + taken);
        }
        // SAFETY: the first `len` bytes of the buffer, which lives as long as `self`; the next one begins behind them.
        len.map(|len| unsafe { Segment::new(start, len as u32) })
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
    fn packed_buffers_lie_behind_what_was_filled() {
        let buffers = Buffers::packed(200, 100);
        let mut filled = Vec::new();
        for (byte, len) in [(1, 100), (2, 1), (3, 65), (4, 0)] {
            filled.push((
                byte,
                buffers.fill(|room| {
                    room.fill(0xee);
                    room[..len].fill(byte);
                    Some(len)
                }),
            ));
        }
        let read = |segment: &Segment<'_>| {
            let mut bytes = vec![0; segment.len() as usize];
            segment.copy_to(&mut bytes);
            bytes
        };
        let all: Vec<_> = filled.iter().map(|(byte, segment)| (*byte, segment.map(|segment| read(&segment)))).collect();
        assert_eq!(all, [(1, Some(vec![1; 100])), (2, Some(vec![2; 1])), (3, Some(vec![3; 65])), (4, None)]);
        buffers.release();
        assert!(buffers.fill(|_| None).is_none());
        // A nested call gets another buffer, which stays.
        let mut nested = None;
        let outer = buffers.fill(|room| {
            nested = buffers.fill(|room| {
                room.fill(8);
                Some(room.len())
            });
            room.fill(7);
            Some(3)
        });
        assert_eq!((read(&outer.unwrap()), read(&nested.unwrap())), (vec![7; 3], vec![8; 100]));
        assert!(buffers.fill(|_| Some(1)).is_some());
    }

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
