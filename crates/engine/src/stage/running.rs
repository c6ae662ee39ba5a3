//! Bit sets of a port's queues: queues that are up, and queues that a worker has to revisit.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Transmit queues of a port that are up. A control thread sets a bit after it has given the queue to the workers, and
/// clears it before it takes the queue from them, so that frames only go through queues that exist.
#[derive(Debug, Default)]
pub(crate) struct Running(AtomicU64);

impl Running {
    /// Marks a queue as up or down.
    pub(crate) fn set(&self, queue: usize, up: bool) {
        match up {
            true => self.0.fetch_or(1 << queue, Ordering::Relaxed),
            false => self.0.fetch_and(!(1 << queue), Ordering::Relaxed),
        };
    }

    /// Reports whether any queue is up.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Picks a queue for `number`: the queue of that index if it is up, so that others that come and go do not matter to
    /// it. Other numbers are spread evenly over the queues that are up. Returns 0 if none is.
    #[inline(always)]
    pub(crate) fn pick(&self, number: usize) -> usize {
        let mut up = self.0.load(Ordering::Relaxed);
        if number < 64 && up & 1 << number != 0 {
            return number;
        }
        if up & up.wrapping_sub(1) != 0 {
            (0..number as u32 % up.count_ones()).for_each(|_| up &= up - 1);
        }
        up.trailing_zeros() as usize % 64
    }
}

/// Queues of a port that a worker has marked.
#[derive(Debug, Default)]
pub(crate) struct Marks(Cell<u64>);

impl Marks {
    /// Marks a queue.
    #[inline(always)]
    pub(crate) fn set(&self, queue: usize) {
        self.0.set(self.0.get() | 1 << queue);
    }

    /// Clears all marks, and calls `act` for each queue that had one.
    #[inline(always)]
    pub(crate) fn take_each(&self, mut act: impl FnMut(usize)) {
        let mut marked = self.0.take();
        while marked != 0 {
            act(marked.trailing_zeros() as usize);
            marked &= marked - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_through_queues_that_are_up() {
        let running = Running::default();
        let picked = |running: &Running| [0, 1, 2, 3, 63].map(|number| running.pick(number));
        assert_eq!(picked(&running), [0; 5]);
        running.set(63, true);
        assert_eq!(picked(&running), [63; 5]);
        [0, 1, 5].iter().for_each(|&queue| running.set(queue, true));
        assert_eq!(picked(&running), [0, 1, 5, 63, 63]);
        assert_eq!(running.pick(5), 5);
        running.set(0, false);
        assert_eq!(picked(&running), [1, 1, 63, 1, 63]);
    }

    #[test]
    fn marks_are_taken_once() {
        let marks = Marks::default();
        [63, 0, 63].iter().for_each(|&queue| marks.set(queue));
        let mut taken = Vec::new();
        marks.take_each(|queue| {
            taken.push(queue);
            marks.set(7);
        });
        assert_eq!(taken, [0, 63]);
        taken.clear();
        marks.take_each(|queue| taken.push(queue));
        assert_eq!(taken, [7]);
    }
}
