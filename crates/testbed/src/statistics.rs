//! Statistics of few measurements: medians, their confidence intervals, and fairness.

use serde::Serialize;

/// Least confidence of an interval, where there are values enough.
const CONFIDENCE: f64 = 0.95;

/// A median with minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Computes a spread; `None` if there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let values = sorted(values);
        Some(Spread { median: middle(&values)?, min: *values.first()?, max: *values.last()? })
    }
}

/// A median with its confidence interval.
///
/// The bounds are values of the sample itself, equally many from either end. They need no assumption on the distribution: each
/// value is below the true median as often as above it, so the probability that the true median lies outside follows from
/// counting alone. Few values cannot give much confidence ([`Estimate::confidence`]): least and greatest of 3 rounds hold the true
/// median with 75 %, of 5 with 93.75 %, and of 6 with 96.9 %. Resampling would claim more for them, but could not know more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median of the sample.
    pub median: f64,
    /// Lower bound of the true median.
    pub low: f64,
    /// Upper bound of the true median.
    pub high: f64,
    /// Number of values.
    pub rounds: usize,
}

impl Estimate {
    /// Computes the median and the narrowest interval with at least 95 % of confidence; the widest that there is, if too few values
    /// are there. `None` if there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
        let values = sorted(values);
        let (median, rounds) = (middle(&values)?, values.len());
        let skipped = skipped(rounds);
        Some(Estimate { median, low: values[skipped], high: values[rounds - 1 - skipped], rounds })
    }

    /// Returns the probability that the true median lies between the bounds of this number of values, if they do not depend on
    /// each other.
    pub fn confidence(rounds: usize) -> f64 {
        1.0 - outside(rounds, skipped(rounds))
    }
}

/// Returns how many of the least values, and of the greatest, an interval leaves out.
fn skipped(rounds: usize) -> usize {
    let most = rounds.saturating_sub(1) / 2;
    (0..=most).rev().find(|&skipped| 1.0 - outside(rounds, skipped) >= CONFIDENCE).unwrap_or(0)
}

/// Returns the probability that at most `skipped` values are below the true median, or at most as many above it.
fn outside(rounds: usize, skipped: usize) -> f64 {
    2.0 * at_most_heads(rounds, skipped)
}

/// Returns the median; `None` if there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    middle(&sorted(values))
}

/// Returns Jain's index of fairness: 1 if all shares are equal, and 1/n if one of n has everything. `None` if all shares are
/// zero.
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the mean and the standard deviation of the sample, which is 0 for one value; `None` if there are no values.
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (!values.is_empty()).then(|| (mean, (squares / (count - 1.0).max(1.0)).sqrt()))
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let &upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

/// Returns the probability of at most `heads` heads among `coins` coins.
fn at_most_heads(coins: usize, heads: usize) -> f64 {
    // Each term follows from the one before. Logarithms: 1/2 to the number of coins may be too small for a number.
    let none = coins as f64 * 0.5_f64.ln();
    let others = (0..heads).scan(none, |term, head| {
        *term += ((coins - head) as f64 / (head + 1) as f64).ln();
        Some(term.exp())
    });
    none.exp() + others.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_even_numbers_lie_between() {
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn few_rounds_give_the_confidence_that_they_have() {
        let of = |count: usize| Estimate::of((1..=count).map(|value| value as f64)).unwrap();
        for (count, low, high, confidence) in
            [(1, 1.0, 1.0, 0.0), (3, 1.0, 3.0, 0.75), (5, 1.0, 5.0, 0.9375), (6, 1.0, 6.0, 0.96875)]
        {
            let found = of(count);
            assert_eq!((found.median, found.low, found.high), ((count + 1) as f64 / 2.0, low, high), "{count}");
            assert!((Estimate::confidence(count) - confidence).abs() < 1e-9, "{count}");
        }
        // As the tables of order statistics have it.
        for (count, low, high) in
            [(9, 2.0, 8.0), (15, 4.0, 12.0), (20, 6.0, 15.0), (50, 18.0, 33.0), (5000, 2431.0, 2570.0)]
        {
            let found = of(count);
            assert_eq!((found.low, found.high), (low, high), "{count}");
            assert!((0.95..0.975).contains(&Estimate::confidence(count)), "{count}");
        }
        assert_eq!(Estimate::of([]), None);
    }

    #[test]
    fn fairness_goes_from_all_to_one() {
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(fairness(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!((fairness(&[0.0, 0.0]), fairness(&[])), (None, None));
    }

    #[test]
    fn one_value_does_not_deviate() {
        assert_eq!(mean_and_deviation(&[2.0, 4.0, 4.0, 6.0]), Some((4.0, (8.0_f64 / 3.0).sqrt())));
        assert_eq!((mean_and_deviation(&[7.0]), mean_and_deviation(&[])), (Some((7.0, 0.0)), None));
    }

    proptest! {
        #[test]
        fn an_interval_holds_the_median_and_lies_within_the_spread(values in prop::collection::vec(0.0..1e6, 1..300)) {
            let found = Estimate::of(values.iter().copied()).unwrap();
            let spread = Spread::of(values.iter().copied()).unwrap();
            prop_assert!(spread.min <= found.low && found.low <= found.median);
            prop_assert!(found.median <= found.high && found.high <= spread.max);
            prop_assert_eq!(found.median, spread.median);
            let confidence = Estimate::confidence(values.len());
            prop_assert!(confidence >= CONFIDENCE || (found.low, found.high) == (spread.min, spread.max));
        }
    }
}
