//! Counters of the parent and of each worker: batches, packets and cycles.

/// The counters of a parent. Cycles are those of the time-stamp counter, and are of rounds in which there was something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentCounters {
    /// Batches received.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Cycles spent to receive and publish them.
    pub receive_cycles: u64,
    /// Cycles spent to release and send them.
    pub send_cycles: u64,
}

/// The counters of a worker. Cycles are those of the time-stamp counter, and are of batches only: what a worker spends
/// without one is not counted.
// Each on cache lines of its own: its worker writes it after each batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Batches processed.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Cycles spent to get batches: with a parent, to claim them; without, to receive them.
    pub claim_cycles: u64,
    /// Cycles spent on the packets.
    pub work_cycles: u64,
    /// Cycles spent to give batches back: with a parent, to complete them; without, to send them.
    pub complete_cycles: u64,
}

impl WorkerCounters {
    /// Adds a batch, by the counts of cycles at its steps: before and after it was claimed, when its packets were processed, and
    /// when it was given back.
    #[inline]
    pub(super) fn add(&mut self, packets: usize, [start, claimed, processed, completed]: [u64; 4]) {
        self.batches += 1;
        self.packets += packets as u64;
        self.claim_cycles += claimed.wrapping_sub(start);
        self.work_cycles += processed.wrapping_sub(claimed);
        self.complete_cycles += completed.wrapping_sub(processed);
    }
}
