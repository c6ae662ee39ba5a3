//! Counters of a worker, which it writes and anyone reads.

use super::place::Whereabouts;
use crate::counters::Counter;
use crate::stage::stopwatch::Stopwatch;

/// Counters of a worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Cycles of rounds that moved frames.
    pub busy: Counter,
    /// Cycles of rounds that moved none.
    pub idle: Counter,
    /// Rounds that moved frames.
    pub rounds: Counter,
    /// Times it went to sleep.
    pub sleeps: Counter,
    /// Frames received.
    pub packets: Counter,
    /// Frames in sampled bursts.
    pub sampled: Counter,
    /// Current place.
    pub(crate) place: Whereabouts,
    /// Cycles of sampled bursts.
    pub(crate) watch: Stopwatch,
}
