//! Packets lost in a row.

use crate::aggregation::single_node::Row;

/// Packets lost in runs, by length of the run, over all rounds.
pub(super) struct Runs(pub(super) Vec<(u64, u64)>);

impl Runs {
    pub(super) fn of(row: &Row) -> Runs {
        let mut all = std::collections::BTreeMap::<u64, u64>::new();
        for (length, count) in row.samples.iter().flat_map(|sample| &sample.runs) {
            *all.entry(*length).or_default() += length * count;
        }
        Runs(all.into_iter().collect())
    }

    pub(super) fn lost(&self) -> u64 {
        self.0.iter().map(|(_, packets)| packets).sum()
    }

    /// Returns the median run length: half of the lost packets were lost in runs that are not longer.
    pub(super) fn median(&self) -> u64 {
        let (half, mut before) = (self.lost().div_ceil(2), 0);
        let mut middle = self.0.iter().skip_while(|(_, packets)| {
            before += packets;
            before < half
        });
        middle.next().map_or(0, |(length, _)| *length)
    }

    /// Returns the percentage of the lost packets that were lost in runs of these lengths.
    pub(super) fn percent(&self, lengths: std::ops::RangeInclusive<u64>) -> Option<f64> {
        let within = self.0.iter().filter(|(length, _)| lengths.contains(length));
        let packets: u64 = within.map(|(_, packets)| packets).sum();
        (self.lost() > 0).then(|| 100.0 * packets as f64 / self.lost() as f64)
    }
}
