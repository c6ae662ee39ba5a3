//! The cycles of a worker's sampled bursts, by stage.

use crate::clock::Cycles;
use crate::counters::Counter;

/// Steps of a worker that are timed in addition to the stages. Each has the slot of its index.
pub(crate) const STEPS: [&str; 5] = ["receive", "forward", "recycle", "publish", "release"];

/// Of these, the steps of a parent: their frames are counted apart.
pub(crate) const PARENT_STEPS: [&str; 2] = [STEPS[PUBLISH], STEPS[RELEASE]];

/// Slot of taking a burst from a queue.
pub(crate) const RECEIVE: usize = 0;
/// Slot of looking up where frames go, and of the transmit halves that take them.
pub(crate) const FORWARD: usize = 1;
/// Slot of returning a burst to its queue.
pub(crate) const RECYCLE: usize = 2;
/// Slot of receiving a burst for several workers.
pub(crate) const PUBLISH: usize = 3;
/// Slot of sending frames that other workers have processed, and of returning them to their queue.
pub(crate) const RELEASE: usize = 4;

/// Number of slots.
pub(crate) const SLOTS: usize = 24;

/// Stopwatch of a worker. One slot at a time gets the cycles that pass: a stage that passes frames on is not charged for the
/// stages after it. Only the worker runs it, and anyone reads it.
pub struct Stopwatch {
    cycles: Cycles,
    is_running: Counter,
    slot: Counter,
    since: Counter,
    spent: [Counter; SLOTS],
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch {
            cycles: Cycles::new(),
            is_running: Counter::default(),
            slot: Counter::default(),
            since: Counter::default(),
            spent: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stopwatch").field(&self.spent).finish()
    }
}

impl Stopwatch {
    /// Starts it in `slot`, which began at the count `since`.
    pub(crate) fn start(&self, slot: usize, since: u64) {
        self.is_running.set(1);
        self.slot.set(slot as u64);
        self.since.set(since);
    }

    /// Stops it, and forgets the time since it was started or last changed its slot.
    pub(crate) fn cancel(&self) {
        self.is_running.set(0);
    }

    /// Continues in `slot`, if it runs. Returns the slot before.
    #[inline(always)]
    pub(crate) fn enter(&self, slot: usize) -> usize {
        if self.is_running.get() == 0 { slot } else { self.change(slot) }
    }

    #[cold]
    fn change(&self, slot: usize) -> usize {
        let (now, before) = (self.cycles.now(), self.slot.get() as usize);
        self.spent[before].add(now.wrapping_sub(self.since.get()));
        self.slot.set(slot as u64);
        self.since.set(now);
        before
    }

    pub(crate) fn stop(&self) {
        self.enter(RECEIVE);
        self.is_running.set(0);
    }

    pub(crate) fn spent(&self, slot: usize) -> u64 {
        self.spent[slot].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_go_to_the_slot_that_was_entered_last() {
        let watch = Stopwatch::default();
        let spend = |cycles: u64| {
            let began = watch.cycles.now();
            while watch.cycles.now().wrapping_sub(began) < cycles {}
        };
        assert_eq!(watch.enter(FORWARD), FORWARD);
        spend(1000);
        assert!((0..SLOTS).all(|slot| watch.spent(slot) == 0), "it does not run: {watch:?}");
        let began = watch.cycles.now();
        watch.start(RECEIVE, began);
        spend(1000);
        assert_eq!(watch.enter(FORWARD), RECEIVE);
        spend(2000);
        // A stage within another one.
        assert_eq!(watch.enter(7), FORWARD);
        spend(3000);
        assert_eq!(watch.enter(FORWARD), 7);
        watch.stop();
        let total = watch.cycles.now().wrapping_sub(began);
        spend(1000);
        assert_eq!(watch.enter(FORWARD), FORWARD);
        let spent = [RECEIVE, FORWARD, 7].map(|slot| watch.spent(slot));
        assert!(spent[0] >= 1000 && spent[1] >= 2000 && spent[2] >= 3000, "{spent:?}");
        assert!(spent.iter().sum::<u64>() <= total, "{spent:?} of {total}");
    }
}
