//! Counters of the parent and of each worker: batches, packets and cycles.

use std::ops::Range;

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
    /// Packets by the cycles that receiving and publishing took for each, round by round.
    pub receiving: Histogram,
    /// Packets by the cycles that releasing and sending took for each, round by round.
    pub sending: Histogram,
}

impl ParentCounters {
    /// Adds the cycles of the packets that were received in a round.
    #[inline]
    pub(super) fn received(&mut self, packets: usize, cycles: u64) {
        self.receive_cycles += cycles;
        self.receiving.add(cycles, packets);
    }

    /// Adds the packets that were sent in a round, or dropped.
    #[inline]
    pub(super) fn sent(&mut self, packets: usize, cycles: u64) {
        self.send_cycles += cycles;
        self.sending.add(cycles, packets);
    }
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
    /// Packets by the cycles that getting their batch and giving it back took for each.
    pub sharing: Histogram,
}

impl WorkerCounters {
    /// Adds a batch, by the counts of cycles at its steps: before and after it was claimed, when its packets were processed, and
    /// when it was given back.
    #[inline]
    pub(super) fn add(&mut self, packets: usize, [start, claimed, processed, completed]: [u64; 4]) {
        let (claim, complete) = (claimed.wrapping_sub(start), completed.wrapping_sub(processed));
        self.batches += 1;
        self.packets += packets as u64;
        self.claim_cycles += claim;
        self.work_cycles += processed.wrapping_sub(claimed);
        self.complete_cycles += complete;
        self.sharing.add(claim.wrapping_add(complete), packets);
    }
}

/// Buckets for each power of two: a bucket is at most 1/32 of its values wide.
const STEPS: u64 = 32;
/// Values from here on are in the last bucket.
const END: u64 = 1 << 20;
const BUCKETS: usize = bucket(END - 1) + 1;

/// Packets by the cycles that a batch took for each of them, in buckets of logarithmic width.
///
/// To add a batch takes a division, and touches one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    packets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { packets: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Adds the packets of a batch, which took `cycles` together.
    #[inline]
    pub fn add(&mut self, cycles: u64, packets: usize) {
        let packets = packets as u64;
        // At most a few cycles are missing from times of this length.
        let each = cycles.min(u32::MAX.into()) as u32 / (packets as u32).max(1);
        self.packets[bucket(u64::from(each).min(END - 1))] += packets;
    }

    /// Returns the buckets that are not empty, in ascending order: their cycles for each packet, and their packets.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        let bounds = (0..).map(|index| lower(index)..lower(index + 1));
        bounds.zip(self.packets).filter(|(_, packets)| *packets > 0)
    }
}

/// Returns the bucket of a value below [`END`].
#[inline(always)]
const fn bucket(value: u64) -> usize {
    // The highest bits of the value that tell the steps of a power of two apart; below two times `STEPS`, all of them.
    let shift = (value | STEPS).ilog2() - STEPS.ilog2();
    (shift as u64 * STEPS + (value >> shift)) as usize
}

/// Returns the least value of a bucket.
const fn lower(bucket: u64) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1);
    (bucket - shift * STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_with_its_bounds() {
        assert_eq!((bucket(0), bucket(63), bucket(64), bucket(65), BUCKETS), (0, 63, 64, 64, 512));
        for value in (0..5000).chain([9999, 65_535, 65_536, END - 1]) {
            let index = bucket(value) as u64;
            let (from, to) = (lower(index), lower(index + 1));
            assert!((from..to).contains(&value), "{value} is not in {from}..{to}");
            assert!(to - from == 1 || (to - from) * STEPS <= from, "{from}..{to} is too wide");
        }
    }

    #[test]
    fn packets_count_by_the_cycles_of_each() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.buckets().count(), 0);
        histogram.add(320, 32);
        histogram.add(40, 4);
        histogram.add(1000, 1);
        histogram.add(u64::MAX, 1);
        histogram.add(50, 0);
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..2], [(10..11, 36), (992..1008, 1)]);
        assert_eq!((buckets.len(), buckets[2].1), (3, 1));
        assert_eq!(buckets[2].0.end, END);
    }

    #[test]
    fn a_batch_counts_where_its_cycles_went() {
        let mut worker = WorkerCounters::default();
        worker.add(4, [100, 140, 1140, 1180]);
        worker.add(1, [u64::MAX, 9, 9, 10]);
        assert_eq!((worker.batches, worker.packets), (2, 5));
        assert_eq!((worker.claim_cycles, worker.work_cycles, worker.complete_cycles), (50, 1000, 41));
        assert!(worker.sharing.buckets().eq([(11..12, 1), (20..21, 4)]));
        let mut parent = ParentCounters::default();
        parent.received(40, 800);
        parent.sent(20, 600);
        assert_eq!((parent.receive_cycles, parent.send_cycles), (800, 600));
        assert!(parent.receiving.buckets().eq([(20..21, 40)]) && parent.sending.buckets().eq([(30..31, 20)]));
    }
}
