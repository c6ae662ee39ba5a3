//! Counters of a worker, which it writes and anyone reads.

use super::place::CurrentPlace;
use crate::counters::Counter;
use crate::stage::stopwatch::Stopwatch;

/// Counters of a worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    /// Cycles of rounds that moved frames.
    pub(crate) busy: Counter,
    /// Cycles of rounds that moved none.
    pub(crate) idle: Counter,
    /// Rounds that moved frames.
    pub(crate) rounds: Counter,
    /// Times it went to sleep.
    pub(crate) sleeps: Counter,
    /// Frames received.
    pub(crate) packets: Counter,
    /// Frames in sampled bursts.
    pub(crate) sampled: Counter,
    /// Frames that it got back from the workers of shared queues, in sampled rounds.
    pub(crate) released: Counter,
    /// Current place.
    pub(crate) place: CurrentPlace,
    /// Cycles of sampled bursts.
    pub(crate) watch: Stopwatch,
}
