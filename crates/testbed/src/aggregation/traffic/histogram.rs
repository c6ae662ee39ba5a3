//! A histogram of times with classes of equal width within each power of two, so that a percentile is accurate to half a
//! percent, from microseconds to seconds.

use serde::Serialize;

/// Classes per power of two, as a power of two.
const FINE: u32 = 8;
/// Powers of two above the first classes: values up to 2^40, which is minutes.
const POWERS: u32 = 32;

/// Counts of values.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum: u64,
    greatest: u64,
}

/// Number of values from one bound to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Smallest value of the class.
    pub from: f64,
    /// Smallest value above the class.
    pub to: f64,
    /// Number of values.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; ((POWERS + 1) << FINE) as usize].into(), total: 0, sum: 0, greatest: 0 }
    }
}

/// Returns the class of a value: small values are their own class; for others it consists of the uppermost bits and the number
/// of bits below them.
#[inline(always)]
fn class_of(value: u64) -> usize {
    let below = (63 - (value | 1 << FINE).leading_zeros()) - FINE;
    let class = (u64::from(below) << FINE) + (value >> below);
    (class as usize).min(((POWERS + 1) << FINE) as usize - 1)
}

/// Returns the smallest values of a class and of the next one.
fn bounds(class: usize) -> (f64, f64) {
    let below = (class >> FINE).saturating_sub(1);
    let from = (class - (below << FINE)) as f64 * (1u64 << below) as f64;
    (from, from + (1u64 << below) as f64)
}

impl Histogram {
    /// Counts a value.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        self.counts[class_of(value)] += 1;
        self.total += 1;
        self.sum += value;
        self.greatest = self.greatest.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.sum += other.sum;
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Returns the number of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns their mean.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.total as f64
    }

    /// Returns the greatest value.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Returns the value below which this share (0 to 1) of all lies; within a class values are assumed to be evenly
    /// distributed.
    pub fn percentile(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut before = 0.0;
        for (class, &count) in self.counts.iter().enumerate() {
            let count = count as f64;
            if count > 0.0 && before + count >= wanted {
                let (from, to) = bounds(class);
                return from + (to - from) * (wanted - before).max(0.0) / count;
            }
            before += count;
        }
        f64::NAN
    }

    /// Returns the classes with values, merging groups of 2^`coarser`.
    pub fn classes(&self, coarser: u32) -> Vec<Class> {
        let mut classes: Vec<Class> = Vec::new();
        for (index, group) in self.counts.chunks(1 << coarser).enumerate() {
            let count = group.iter().sum();
            if count > 0 {
                let first = index << coarser;
                classes.push(Class { from: bounds(first).0, to: bounds(first + group.len() - 1).1, count });
            }
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_its_class() {
        let values = (0..5000).chain((8..39).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 77]));
        for value in values {
            let (from, to) = bounds(class_of(value));
            assert!(from <= value as f64 && (value as f64) < to, "{value}: {from}..{to}");
            assert!(to - from <= (value as f64 / 256.0).max(1.0), "{value}: {from}..{to}");
        }
        assert_eq!(class_of(u64::MAX), class_of(1 << 62));
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.add(value));
        for share in [0.01, 0.5, 0.9, 0.999] {
            let error = histogram.percentile(share) / (share * 100_000.0);
            assert!((0.995..1.005).contains(&error), "{share}: {error}");
        }
        assert_eq!((histogram.total(), histogram.greatest(), histogram.mean()), (100_000, 100_000, 50_000.5));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.total(), twice.percentile(0.9)), (200_000, histogram.percentile(0.9)));
        assert!(Histogram::default().percentile(0.5).is_nan());
    }

    #[test]
    fn coarse_classes_hold_the_same_values() {
        let mut histogram = Histogram::default();
        [3, 3, 250, 300, 301, 100_000].into_iter().for_each(|value| histogram.add(value));
        let classes = histogram.classes(4);
        assert_eq!(classes.iter().map(|class| class.count).collect::<Vec<_>>(), [2, 1, 2, 1]);
        assert_eq!(classes[0], Class { from: 0.0, to: 16.0, count: 2 });
        assert!(classes.windows(2).all(|pair| pair[0].to <= pair[1].from));
    }
}
