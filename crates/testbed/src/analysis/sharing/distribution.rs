//! Distributions of cycles: merged, trimmed, added to each other, and read off.

use nf::crew::Histogram;
use std::collections::BTreeMap;

/// Values with their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// By twice the value: the middle of a bucket can be half a cycle.
    weights: BTreeMap<u64, f64>,
}

/// Sums are rounded to this many bits: as fine as the buckets, and few enough for another sum.
const BITS: u32 = 7;

impl From<&Histogram> for Distribution {
    /// Takes the packets of a bucket as ones in its middle.
    fn from(histogram: &Histogram) -> Distribution {
        Distribution {
            weights: histogram.buckets().map(|(range, packets)| (range.start + range.end, packets as f64)).collect(),
        }
    }
}

impl Distribution {
    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Distribution) {
        for (&value, &weight) in &other.weights {
            *self.weights.entry(value).or_default() += weight;
        }
    }

    /// Returns the values up to `bound`, and the share of those above.
    pub fn up_to(&self, bound: u64) -> (Distribution, f64) {
        let weights: BTreeMap<_, _> =
            self.weights.range(..=2 * bound).map(|(&value, &weight)| (value, weight)).collect();
        let kept = Distribution { weights };
        let above = if self.total() > 0.0 { 1.0 - kept.total() / self.total() } else { 0.0 };
        (kept, above)
    }

    /// Returns the distribution of the sum of a value of this one and a value of another one, independent of each other.
    pub fn plus(&self, other: &Distribution) -> Distribution {
        let mut weights = BTreeMap::new();
        let total = other.total();
        for (&a, &weight) in &self.weights {
            for (&b, &share) in &other.weights {
                *weights.entry(rounded(a + b)).or_default() += weight * share / total;
            }
        }
        Distribution { weights }
    }

    /// Returns the sum of all weights.
    pub fn total(&self) -> f64 {
        self.weights.values().sum()
    }

    /// Returns the mean; 0 if there is nothing.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.weights.iter().map(|(&value, weight)| value as f64 / 2.0 * weight).sum();
        if self.total() > 0.0 { sum / self.total() } else { 0.0 }
    }

    /// Returns the least value that at least this share of all does not exceed; 0 if there is nothing.
    pub fn quantile(&self, share: f64) -> f64 {
        let total = self.total();
        let points = self.shares();
        points.into_iter().find(|(_, below)| below * total >= share * total - 1e-6).map_or(0.0, |(value, _)| value)
    }

    /// Returns the cumulative distribution: each value, and the share of values up to it.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let total = self.total();
        let mut sum = 0.0;
        let share = |(&value, weight): (&u64, &f64)| {
            sum += weight;
            (value as f64 / 2.0, sum / total)
        };
        self.weights.iter().map(share).collect()
    }
}

/// Rounds to the most significant bits.
fn rounded(value: u64) -> u64 {
    let shift = (value | 1).ilog2().saturating_sub(BITS);
    ((value + ((1 << shift) >> 1)) >> shift) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(u64, f64)]) -> Distribution {
        Distribution { weights: values.iter().map(|&(value, weight)| (2 * value, weight)).collect() }
    }

    #[test]
    fn a_histogram_is_read_at_the_middle_of_its_buckets() {
        let mut histogram = Histogram::default();
        histogram.add(320, 32);
        histogram.add(1000, 1);
        let distribution = Distribution::from(&histogram);
        assert_eq!(distribution.shares(), [(10.5, 32.0 / 33.0), (1000.0, 1.0)]);
        assert_eq!(distribution.total(), 33.0);
    }

    #[test]
    fn quantiles_and_the_mean_count_weights() {
        let distribution = of(&[(1, 1.0), (2, 2.0), (10, 1.0)]);
        assert_eq!(
            [0.0, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0].map(|q| distribution.quantile(q)),
            [1., 1., 2., 2., 2., 10., 10.]
        );
        assert_eq!(distribution.mean(), 15.0 / 4.0);
        let nothing = Distribution::default();
        assert_eq!((nothing.quantile(0.5), nothing.mean(), nothing.up_to(9).1), (0.0, 0.0, 0.0));
    }

    #[test]
    fn shares_rise_to_one() {
        let mut distribution = of(&[(5, 3.0), (7, 1.0)]);
        distribution.merge(&of(&[(6, 4.0), (7, 2.0)]));
        assert_eq!(distribution.shares(), [(5.0, 0.3), (6.0, 0.7), (7.0, 1.0)]);
    }

    #[test]
    fn values_above_a_bound_are_known_and_do_not_count() {
        let (kept, above) = of(&[(5, 3.0), (100, 3.0), (101, 2.0)]).up_to(100);
        assert_eq!((kept.total(), above), (6.0, 0.25));
        assert_eq!(kept.quantile(1.0), 100.0);
    }

    #[test]
    fn a_sum_has_the_sum_of_the_means() {
        let (a, b) = (of(&[(10, 1.0), (30, 3.0)]), of(&[(1, 5.0), (3, 5.0)]));
        let sum = a.plus(&b);
        assert_eq!(sum.shares(), [(11.0, 0.125), (13.0, 0.25), (31.0, 0.625), (33.0, 1.0)]);
        assert_eq!((sum.mean(), sum.total()), (a.mean() + b.mean(), a.total()));
        let large = of(&[(100_003, 1.0)]).plus(&of(&[(100_003, 1.0)]));
        assert!((large.mean() / 200_006.0 - 1.0).abs() < 0.01);
    }
}
