//! Distribution of the times that packets take.

use super::Latency;
use hdrhistogram::Histogram;

/// Cycles of the longest time that is recorded exactly: longer ones count as this one, about 20 seconds.
const LONGEST: u64 = 1 << 36;

/// Times in cycles.
pub struct Times {
    histogram: Histogram<u64>,
    /// The last time, and how often it came in a row: packets of a burst often have the same.
    last: u64,
    count: u64,
}

impl Times {
    /// Creates an empty distribution, precise to a thousandth.
    pub fn new() -> Times {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are possible");
        Times { histogram, last: 0, count: 0 }
    }

    /// Adds a time.
    #[inline(always)]
    pub fn note(&mut self, cycles: u64) {
        if cycles == self.last {
            self.count += 1;
        } else {
            self.add_last();
            (self.last, self.count) = (cycles, 1);
        }
    }

    #[inline]
    fn add_last(&mut self) {
        if self.count > 0 {
            self.histogram.saturating_record_n(self.last, self.count);
        }
        self.count = 0;
    }

    /// Returns the distribution in nanoseconds, with a counter of this frequency; `None` if it is empty.
    pub fn report(&mut self, hz: f64) -> Option<Latency> {
        self.add_last();
        if self.histogram.is_empty() {
            return None;
        }
        let nanos = |cycles: f64| cycles * 1e9 / hz;
        let at = |quantile| nanos(self.histogram.value_at_quantile(quantile) as f64);
        Some(Latency {
            min: nanos(self.histogram.min() as f64),
            mean: nanos(self.histogram.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: nanos(self.histogram.max() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_a_row_count_as_often_as_they_came() {
        let mut times = Times::new();
        assert_eq!(times.report(1e9), None);
        (0..98).for_each(|_| times.note(2000));
        [6000, 2000, u64::MAX].into_iter().for_each(|cycles| times.note(cycles));
        let report = times.report(2e9).unwrap();
        let about = |value: f64, expected: f64| (value / expected - 1.0).abs() < 2e-3;
        assert!(about(report.min, 1000.0) && about(report.p50, 1000.0) && about(report.p90, 1000.0), "{report:?}");
        assert!(about(report.p99, 3000.0) && about(report.max, LONGEST as f64 / 2.0), "{report:?}");
    }
}
