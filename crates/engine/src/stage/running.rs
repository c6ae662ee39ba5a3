//! Bit sets of a port's queues: queues that are up, and queues that a worker has to revisit.

use crate::port::MAX_QUEUES;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that have a bit for each queue.
const WORDS: usize = MAX_QUEUES.div_ceil(64) as usize;

/// Returns the word of a queue, and its bit there.
#[inline(always)]
fn place(queue: usize) -> (usize, u64) {
    (queue / 64, 1 << (queue % 64))
}

/// Transmit queues of a port that are up. A control thread sets a bit after it has given the queue to the workers, and
/// clears it before it takes the queue from them, so that frames only go through queues that exist.
#[derive(Debug, Default)]
pub(crate) struct Running([AtomicU64; WORDS]);

impl Running {
    /// Marks a queue as up or down.
    pub(crate) fn set(&self, queue: usize, up: bool) {
        let (word, bit) = place(queue);
        match up {
            true => self.0[word].fetch_or(bit, Ordering::Relaxed),
            false => self.0[word].fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Reports whether any queue is up.
    pub(crate) fn is_any(&self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Picks a queue for `number`: the queue of that index if it is up, so that others that come and go do not matter to
    /// it. Other numbers are spread evenly over the queues that are up. Returns 0 if none is.
    #[inline(always)]
    pub(crate) fn pick(&self, number: usize) -> usize {
        let (word, bit) = place(number);
        if self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0) {
            return number;
        }
        self.spread(number)
    }

    /// Picks one of the queues that are up for a number.
    #[inline(never)]
    fn spread(&self, number: usize) -> usize {
        let words = self.0.each_ref().map(|word| word.load(Ordering::Relaxed));
        let count: u32 = words.iter().map(|word| word.count_ones()).sum();
        let mut before = if count > 0 { number as u32 % count } else { 0 };
        for (index, mut up) in words.into_iter().enumerate() {
            if before < up.count_ones() {
                (0..before).for_each(|_| up &= up - 1);
                return index * 64 + up.trailing_zeros() as usize;
            }
            before -= up.count_ones();
        }
        0
    }
}

/// Queues of a port that a worker has marked.
#[derive(Debug, Default)]
pub(crate) struct Marks([Cell<u64>; WORDS]);

impl Marks {
    /// Marks a queue.
    #[inline(always)]
    pub(crate) fn set(&self, queue: usize) {
        let (word, bit) = place(queue);
        self.0[word].set(self.0[word].get() | bit);
    }

    /// Clears all marks, and calls `act` for each queue that had one.
    #[inline(always)]
    pub(crate) fn take_each(&self, mut act: impl FnMut(usize)) {
        for (word, marks) in self.0.iter().enumerate() {
            let mut marked = marks.get();
            if marked == 0 {
                continue;
            }
            marks.set(0);
            while marked != 0 {
                act(word * 64 + marked.trailing_zeros() as usize);
                marked &= marked - 1;
            }
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
