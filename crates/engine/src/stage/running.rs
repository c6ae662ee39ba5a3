//! Bit sets of a port's queues: queues that are up, and queues that a worker has to revisit.

use crate::port::MAX_QUEUES;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Queues from this one on are far: few ports have them, and they cost the others nothing.
const FAR: usize = 63;

const _: () = assert!(MAX_QUEUES <= 128, "there is a bit for each queue");

/// Transmit queues of a port that are up. A control thread sets a bit after it has given the queue to the workers, and
/// clears it before it takes the queue from them, so that frames only go through queues that exist.
#[derive(Debug, Default)]
pub(crate) struct Running([AtomicU64; 2]);

impl Running {
    /// Marks a queue as up or down.
    pub(crate) fn set(&self, queue: usize, up: bool) {
        let (word, bit) = (&self.0[queue / 64], 1 << (queue % 64));
        match up {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Reports whether any queue is up.
    pub(crate) fn is_any(&self) -> bool {
        self.all() != 0
    }

    fn all(&self) -> u128 {
        let [low, high] = self.0.each_ref().map(|word| u128::from(word.load(Ordering::Relaxed)));
        low | high << 64
    }

    /// Picks a queue for `number`: the queue of that index if it is up, so that others that come and go do not matter to
    /// it. Other numbers are spread evenly over the queues that are up. Returns 0 if none is.
    #[inline(always)]
    pub(crate) fn pick(&self, number: usize) -> usize {
        let is_up = number < FAR && self.0[0].load(Ordering::Relaxed) & 1 << number != 0;
        if is_up { number } else { self.pick_of_all(number) }
    }

    #[inline(never)]
    fn pick_of_all(&self, number: usize) -> usize {
        let mut up = self.all();
        if number < 128 && up & 1 << number != 0 {
            return number;
        }
        (0..number as u32 % up.count_ones().max(1)).for_each(|_| up &= up - 1);
        up.trailing_zeros() as usize % 128
    }
}

/// Queues of a port that a worker has marked.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// A bit for each queue that is not far, and one if any that is far is marked.
    near: Cell<u64>,
    far: Cell<u128>,
}

impl Marks {
    /// Marks a queue.
    #[inline(always)]
    pub(crate) fn set(&self, queue: usize) {
        if queue >= FAR {
            self.set_far(queue);
        }
        self.near.set(self.near.get() | 1 << queue.min(FAR));
    }

    #[cold]
    fn set_far(&self, queue: usize) {
        self.far.set(self.far.get() | 1 << queue);
    }

    /// Clears all marks, and calls `act` for each queue that had one.
    #[inline(always)]
    pub(crate) fn take_each(&self, mut act: impl FnMut(usize)) {
        let mut marked = self.near.take();
        while marked != 0 {
            match marked.trailing_zeros() as usize {
                FAR => self.take_far(&mut act),
                queue => act(queue),
            }
            marked &= marked - 1;
        }
    }

    #[cold]
    fn take_far(&self, act: &mut dyn FnMut(usize)) {
        let mut marked = self.far.take();
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
        let last = usize::from(MAX_QUEUES) - 1;
        let picked = |running: &Running| [0, 1, 2, 3, last, last + 1].map(|number| running.pick(number));
        assert_eq!(picked(&running), [0; 6]);
        assert!(!running.is_any());
        running.set(last, true);
        assert!(running.is_any());
        assert_eq!(picked(&running), [last; 6]);
        [0, 1, 64].iter().for_each(|&queue| running.set(queue, true));
        assert_eq!(picked(&running), [0, 1, 64, last, last, 0]);
        assert_eq!((running.pick(64), running.pick(65)), (64, 1));
        running.set(0, false);
        assert_eq!(picked(&running), [1, 1, last, 1, last, last]);
    }

    #[test]
    fn marks_are_taken_once() {
        let marks = Marks::default();
        let last = usize::from(MAX_QUEUES) - 1;
        [last, 0, 64, last].iter().for_each(|&queue| marks.set(queue));
        let mut taken = Vec::new();
        marks.take_each(|queue| {
            taken.push(queue);
            marks.set(7);
        });
        assert_eq!(taken, [0, 64, last]);
        taken.clear();
        marks.take_each(|queue| taken.push(queue));
        assert_eq!(taken, [7]);
    }
}
