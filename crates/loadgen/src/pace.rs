//! Due times of packets: in bursts, at intervals that are equal, random, or interrupted.

/// Distribution of the intervals between bursts. All have the same mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Intervals {
    /// All are equal.
    Equal,
    /// They are exponentially distributed, so that bursts are independent of each other.
    Random {
        /// Start of the random numbers.
        seed: u64,
    },
    /// They are equal for `on` seconds, and nothing is due in the `off` seconds that follow.
    Interrupted {
        /// Seconds with bursts.
        on: f64,
        /// Seconds without.
        off: f64,
    },
}

/// A rate that is kept whatever happens to the packets.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Cycle count at which the first burst is due.
    start: u64,
    /// Cycles from then until the next burst, without those in which nothing is due.
    next: f64,
    /// Mean cycles between bursts, without those.
    mean: f64,
    /// Packets of a burst.
    burst: u64,
    /// Packets due so far.
    due: u64,
    shape: Shape,
}

/// Intervals, in cycles.
#[derive(Clone, Debug)]
enum Shape {
    Equal,
    Random(fastrand::Rng),
    Interrupted { on: f64, off: f64 },
}

impl Pace {
    /// Creates a pace of `rate` packets per second from the cycle `start` on, in bursts of `burst`; `hz` is the counter's
    /// frequency.
    pub fn new(start: u64, rate: f64, hz: f64, burst: u16, intervals: Intervals) -> Pace {
        let burst = u64::from(burst.max(1));
        let mean = hz * burst as f64 / rate;
        let (mean, shape) = match intervals {
            Intervals::Equal => (mean, Shape::Equal),
            Intervals::Random { seed } => (mean, Shape::Random(fastrand::Rng::with_seed(seed))),
            Intervals::Interrupted { on, off } => {
                (mean * on / (on + off), Shape::Interrupted { on: on * hz, off: off * hz })
            }
        };
        Pace { start, next: 0.0, mean, burst, due: 0, shape }
    }

    /// Continues the count from `before`.
    pub fn after(self, before: u64) -> Pace {
        Pace { due: before, ..self }
    }

    /// Returns the number of packets due until `now`: whole bursts, the first one at once.
    #[inline(always)]
    pub fn due(&mut self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start) as f64;
        while self.until_next() <= elapsed {
            self.due += self.burst;
            self.next += match &mut self.shape {
                Shape::Random(random) => -self.mean * (1.0 - random.f64()).ln(),
                Shape::Equal | Shape::Interrupted { .. } => self.mean,
            };
        }
        self.due
    }

    /// Returns the cycles from the start until the next burst.
    #[inline(always)]
    fn until_next(&self) -> f64 {
        match self.shape {
            Shape::Interrupted { on, off } => self.next + (self.next / on).floor() * off,
            Shape::Equal | Shape::Random(_) => self.next,
        }
    }

    /// Continues `cycles` later: the sender was not running, and the packets due then must not form a train.
    pub fn postpone(&mut self, cycles: u64) {
        self.start += cycles;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a pace of a million per second from cycle 5000 on, with a counter at 1 GHz.
    fn pace(burst: u16, intervals: Intervals) -> Pace {
        Pace::new(5_000, 1e6, 1e9, burst, intervals)
    }

    #[test]
    fn smooth_packets_are_due_one_by_one() {
        let mut pace = pace(1, Intervals::Equal);
        let due: Vec<u64> = [0, 5_000, 5_999, 6_001, 7_001, 10_005_001].map(|now| pace.due(now)).into();
        assert_eq!(due, [1, 1, 1, 2, 3, 10_001]);
    }

    #[test]
    fn bursts_are_due_as_a_whole_at_the_same_rate() {
        let mut pace = pace(32, Intervals::Equal).after(100);
        assert_eq!([5_000, 36_999, 37_001, 69_001].map(|now| pace.due(now) - 100), [32, 32, 64, 96]);
        assert_eq!(pace.due(320_005_001) - 100, 320_032);
    }

    #[test]
    fn packets_due_in_a_pause_are_skipped() {
        let mut pace = pace(1, Intervals::Equal);
        assert_eq!(pace.due(15_001), 11);
        pace.postpone(50_000);
        assert_eq!(pace.due(65_001), 11);
        assert_eq!(pace.due(66_001), 12);
    }

    #[test]
    fn random_intervals_have_the_mean_and_the_variance_of_exponential_ones() {
        let mut pace = pace(1, Intervals::Random { seed: 7 });
        // Packets of 10 000 times of 10 microseconds each: their mean and their variance are both 10.
        let mut before = pace.due(5_000);
        let counts: Vec<f64> = (1..=10_000u64)
            .map(|time| {
                let due = pace.due(5_000 + time * 10_000);
                (due - std::mem::replace(&mut before, due)) as f64
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((9.8..10.2).contains(&mean) && (9.0..11.0).contains(&variance), "{mean}, {variance}");
        let again = Pace::new(5_000, 1e6, 1e9, 1, Intervals::Random { seed: 7 }).due(100_005_000);
        assert_eq!(again, before);
    }

    #[test]
    fn interrupted_ones_have_the_same_mean_and_pauses() {
        let mut pace = pace(1, Intervals::Interrupted { on: 1e-3, off: 3e-3 });
        // Four packets each microsecond, for a millisecond in every four.
        let due: Vec<u64> =
            [5_000, 1_004_900, 2_000_000, 4_004_900, 4_005_000, 4_006_010].map(|now| pace.due(now)).into();
        assert_eq!(due, [1, 4_000, 4_000, 4_000, 4_001, 4_005]);
        assert_eq!(pace.due(40_004_900), 40_000);
    }
}
