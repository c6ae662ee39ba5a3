//! The time of a loop, by its use.

/// Cycles of a loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// In rounds that found nothing to do.
    pub idle: u64,
    /// In rounds in which the thread was not running.
    pub stalled: u64,
    /// In all rounds.
    pub all: u64,
}

impl Tally {
    /// Returns the cycles since an earlier moment.
    pub fn since(self, before: Tally) -> Tally {
        Tally { idle: self.idle - before.idle, stalled: self.stalled - before.stalled, all: self.all - before.all }
    }
}
