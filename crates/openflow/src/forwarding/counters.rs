//! Counters of flows: workers write them while others read.
//!
//! Each worker counts in a lane of its own. A flow has a slot, which is a cell in every lane. A slot is used again as soon as nobody
//! refers to it any more: until then, a worker that still goes by an older table counts for the flow that it knows.

use crate::wire::Put;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of cells that a lane allocates at once.
const CHUNK: usize = 1 << 12;
/// Greatest number of chunks: 4 million cells.
const CHUNKS: usize = 1 << 10;

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// The counters of all flows.
#[derive(Debug, Default)]
pub struct Counters {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Arc<Lane>>,
    /// Slots that can be used again.
    free: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
}

/// The counters that one worker writes.
#[derive(Debug)]
pub struct Lane {
    chunks: Box<[OnceLock<Box<[Cell]>>]>,
}

/// A counter with one writer.
#[derive(Debug, Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// The place of a flow in all lanes.
#[derive(Debug)]
pub struct Slot {
    index: u32,
    counters: Arc<Counters>,
}

/// A slot, and the count that it began with.
#[derive(Clone, Debug)]
pub struct Tally {
    slot: Arc<Slot>,
    before: Count,
}

impl Counters {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lane of a worker, and makes it if it is new.
    pub fn lane(&self, worker: usize) -> Arc<Lane> {
        let mut state = self.state();
        while state.lanes.len() <= worker {
            let lane = Lane { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() };
            (0..state.next).step_by(CHUNK).for_each(|slot| lane.make_room(slot));
            state.lanes.push(Arc::new(lane));
        }
        state.lanes[worker].clone()
    }

    /// Returns a slot that nobody uses; `None` if there are no more.
    pub fn slot(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state();
        let index = match state.free.pop() {
            Some(index) => index,
            None if state.next as usize == CHUNK * CHUNKS => return None,
            None => {
                let index = state.next;
                state.next += 1;
                state.lanes.iter().for_each(|lane| lane.make_room(index));
                index
            }
        };
        Some(Slot { index, counters: self.clone() })
    }

    /// Returns all lanes.
    pub fn lanes(&self) -> Vec<Arc<Lane>> {
        self.state().lanes.clone()
    }
}

impl Lane {
    fn make_room(&self, slot: u32) {
        let cells = || (0..CHUNK).map(|_| Cell::default()).collect();
        self.chunks[slot as usize / CHUNK].get_or_init(cells);
    }

    #[inline(always)]
    fn cell(&self, slot: u32) -> Option<&Cell> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get()?.get(slot % CHUNK)
    }

    /// Counts packets. One thread at a time may do so.
    #[inline(always)]
    pub fn add(&self, slot: u32, packets: u64, bytes: u64) {
        // A flow that a worker knows has a cell.
        let Some(cell) = self.cell(slot) else { return };
        let add = |counter: &AtomicU64, n: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        };
        add(&cell.packets, packets);
        add(&cell.bytes, bytes);
    }
}

impl Slot {
    /// Returns its number.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the count of these lanes in the slot, which earlier flows may have used.
    pub fn sum(&self, lanes: &[Arc<Lane>]) -> Count {
        let mut sum = Count::default();
        for cell in lanes.iter().filter_map(|lane| lane.cell(self.index)) {
            sum.packets = sum.packets.wrapping_add(cell.packets.load(Ordering::Relaxed));
            sum.bytes = sum.bytes.wrapping_add(cell.bytes.load(Ordering::Relaxed));
        }
        sum
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.counters.state().free.push(self.index);
    }
}

impl Tally {
    /// Returns a new one; `None` if there are no more slots.
    pub fn new(counters: &Arc<Counters>) -> Option<Tally> {
        let slot = Arc::new(counters.slot()?);
        let before = slot.sum(&counters.lanes());
        Some(Tally { slot, before })
    }

    /// Returns the number of its slot.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.slot.index()
    }

    /// Returns the count of these lanes.
    pub fn sum(&self, lanes: &[Arc<Lane>]) -> Count {
        self.slot.sum(lanes).since(self.before)
    }

    /// Appends it, as statistics have it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, lanes: &[Arc<Lane>]) {
        let count = self.sum(lanes);
        out.u64(count.packets);
        out.u64(count.bytes);
    }
}

impl Count {
    /// Returns the count since an earlier one.
    pub fn since(self, before: Count) -> Count {
        Count { packets: self.packets.wrapping_sub(before.packets), bytes: self.bytes.wrapping_sub(before.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_come_later_have_cells_for_all() {
        let counters = Arc::new(Counters::default());
        let first = counters.lane(0);
        let slots: Vec<Slot> = (0..CHUNK + 2).map(|_| counters.slot().unwrap()).collect();
        let last = slots.last().unwrap();
        first.add(last.index(), 1, 60);
        counters.lane(2).add(last.index(), 2, 130);
        assert_eq!(last.sum(&counters.lanes()), Count { packets: 3, bytes: 190 });
        assert_eq!(slots[0].sum(&counters.lanes()), Count::default());
        assert_eq!(counters.lanes().len(), 3);
    }

    #[test]
    fn a_slot_is_used_again_when_nobody_has_it() {
        let counters = Arc::new(Counters::default());
        let lane = counters.lane(0);
        let [one, other] = [(); 2].map(|()| Arc::new(counters.slot().unwrap()));
        let index = one.index();
        lane.add(index, 5, 300);
        let known = one.clone();
        drop(one);
        assert_ne!(counters.slot().unwrap().index(), index);
        lane.add(known.index(), 1, 60);
        drop(known);
        let again = counters.slot().unwrap();
        assert_eq!((again.index(), other.index()), (index, 1));
        // The counts of an earlier flow stay in the slot: the new flow begins with them.
        let before = again.sum(&counters.lanes());
        lane.add(index, 2, 120);
        assert_eq!(again.sum(&counters.lanes()).since(before), Count { packets: 2, bytes: 120 });
    }
}
