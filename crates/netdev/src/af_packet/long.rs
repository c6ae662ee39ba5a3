//! Room for received frames that are longer than a slot of their ring.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use packet::{MAX_BURST, MAX_FRAME};

use super::ring_memory::RingMemory;

/// Bytes of the room: 127 of the longest frames, as other threads may still use those of earlier bursts. Memory is there once it is used.
const BYTES: usize = 8 << 20;

const _: () = assert!(BYTES >= 3 * MAX_BURST * MAX_FRAME as usize);

/// Memory that frames lie in one behind the other, in the order in which they come and go.
#[derive(Debug)]
pub(super) struct LongRoom {
    memory: Arc<RingMemory>,
    /// Where the oldest frame starts, and where the newest one ends. Both are 0 while there is none.
    start: Cell<usize>,
    end: Cell<usize>,
}

impl LongRoom {
    pub(super) fn new() -> io::Result<LongRoom> {
        let memory = Arc::new(RingMemory::anonymous(BYTES)?);
        Ok(LongRoom { memory, start: Cell::new(0), end: Cell::new(0) })
    }

    pub(super) fn memory(&self) -> &Arc<RingMemory> {
        &self.memory
    }

    /// Takes room for a frame: returns where the frame starts, and where it ends. `None` if frames that are there leave too little.
    pub(super) fn take(&self, len: usize) -> Option<(usize, usize)> {
        let (start, end) = (self.start.get(), self.end.get());
        // A frame ends before the oldest one starts, as a room whose ends meet is empty.
        let at = match end + len {
            until if end >= start && until <= BYTES => end,
            _ if end >= start && len < start => 0,
            until if end < start && until < start => end,
            _ => return None,
        };
        self.end.set(at + len);
        Some((at, at + len))
    }

    /// Gives the room of the oldest frame back, which ends here.
    pub(super) fn release(&self, end: usize) {
        if end == self.end.get() {
            // The first bytes are in the cache again and again if few frames are there at a time.
            self.start.set(0);
            self.end.set(0);
        } else {
            self.start.set(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn frames_have_room_of_their_own_in_any_number() {
        let room = LongRoom::new().unwrap();
        let mut there = VecDeque::new();
        let mut refused = 0;
        for number in 0usize..20_000 {
            let len = 1600 + number * 7919 % 64_000;
            // Phases in which frames stay for long, and in which they leave at once.
            let most = [1, 3, 1000][number / 400 % 3];
            while there.len() >= most {
                let (_, end) = there.pop_front().unwrap();
                room.release(end);
            }
            let Some((start, end)) = room.take(len) else {
                refused += 1;
                let (_, end) = there.pop_front().expect("an empty room has room");
                room.release(end);
                continue;
            };
            assert!(end - start == len && end <= BYTES);
            assert!(
                there.iter().all(|&(other, until): &(usize, usize)| end <= other || until <= start),
                "{start} to {end}"
            );
            there.push_back((start, end));
        }
        assert!(refused > 100, "{refused}");
        while let Some((_, end)) = there.pop_front() {
            room.release(end);
        }
        assert_eq!(room.take(BYTES), Some((0, BYTES)));
        assert_eq!(room.take(1), None);
    }
}
