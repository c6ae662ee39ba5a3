//! Counters of a worker, which it writes and anyone reads.

use super::place::CurrentPlace;
use crate::counters::Counter;
use crate::stage::order;
use crate::stage::stopwatch::Stopwatch;
use crate::stats::WorkerStats;

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

impl WorkerCounters {
    /// Returns the present numbers, with defaults for all other fields.
    pub(crate) fn stats(&self) -> WorkerStats {
        let (sampled, released) = (self.sampled.get(), self.released.get());
        let each = |frames: u64| move |(name, cycles): (&str, u64)| (name.into(), cycles as f64 / frames.max(1) as f64);
        // Before the first frames have come back, the cost of their parent is not known.
        let parent = order::parent_cycles(&self.watch).into_iter().filter(|_| released > 0);
        WorkerStats {
            busy_cycles: self.busy.get(),
            idle_cycles: self.idle.get(),
            busy_rounds: self.rounds.get(),
            sleeps: self.sleeps.get(),
            packets: self.packets.get(),
            stage_cycles_per_packet: order::cycles(&self.watch).into_iter().map(each(sampled)).collect(),
            sampled_packets: sampled,
            parent_cycles_per_packet: parent.map(each(released)).collect(),
            parent_sampled_packets: released,
            ..WorkerStats::default()
        }
    }
}
