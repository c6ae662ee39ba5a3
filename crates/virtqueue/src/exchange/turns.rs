//! Turns of a group's queues to try which way is faster: two that try at once would measure each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time after which a turn counts as given up: its queue has had no frames to end it with.
const LONG: Duration = Duration::from_secs(2);

/// Hands out turns.
#[derive(Debug)]
pub(super) struct Turns {
    epoch: Instant,
    /// Nanoseconds from the epoch to the start of the present turn, or zero.
    since: AtomicU64,
}

/// The turn of a queue, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    since: u64,
}

impl Turns {
    /// Returns turns, of which nobody has one.
    pub(super) fn new() -> Arc<Turns> {
        Arc::new(Turns { epoch: Instant::now(), since: AtomicU64::new(0) })
    }

    /// Takes a turn, unless another queue has it.
    pub(super) fn take(self: &Arc<Turns>, now: Instant) -> Option<Turn> {
        let now = 1 + now.saturating_duration_since(self.epoch).as_nanos() as u64;
        let since = self.since.load(Ordering::Relaxed);
        let is_free = since == 0 || now.saturating_sub(since) > LONG.as_nanos() as u64;
        (is_free && self.since.compare_exchange(since, now, Ordering::Relaxed, Ordering::Relaxed).is_ok())
            .then(|| Turn { turns: self.clone(), since: now })
    }
}

impl Turn {
    /// Reports whether it is still the queue's.
    pub(super) fn is_held(&self) -> bool {
        self.turns.since.load(Ordering::Relaxed) == self.since
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Unless it was given up, and is another queue's by now.
        let _ = self.turns.since.compare_exchange(self.since, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_queue_has_a_turn_at_a_time() {
        let turns = Turns::new();
        let now = Instant::now();
        let first = turns.take(now).unwrap();
        assert!(turns.take(now).is_none());
        assert!(first.is_held());
        let second = turns.take(now + 2 * LONG).expect("the first was given up");
        assert!(second.is_held() && !first.is_held());
        drop(first);
        assert!(turns.take(now + 2 * LONG).is_none(), "the second goes on");
        drop(second);
        assert!(turns.take(now).is_some());
    }
}
