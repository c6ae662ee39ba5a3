//! Latency at the throughput (RFC 2544 §26.2).

use crate::search::record::Trial;
use crate::search::{Series, TrialRequest};
use crate::statistics::mean_and_deviation;

/// The trials of one frame size.
#[derive(Clone, Debug)]
pub struct LatencyTrials {
    rate: f64,
    seconds: f64,
    left: usize,
    trials: Vec<Trial>,
}

/// Latency in nanoseconds. The RFC takes the time of one frame in each trial; here each trial has that of all its packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyFigures {
    /// Packets per second.
    pub rate: f64,
    /// Number of trials.
    pub trials: usize,
    /// Average of the trials' means.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Average of the trials' 99th percentiles.
    pub p99: f64,
    /// Greatest share of packets that a trial lost.
    pub loss: f64,
}

impl LatencyTrials {
    /// Makes this number of trials at the throughput, in packets per second.
    pub fn new(rate: f64, seconds: f64, trials: usize) -> LatencyTrials {
        LatencyTrials { rate, seconds, left: trials, trials: Vec::new() }
    }
}

impl Series for LatencyTrials {
    type Figures = Option<LatencyFigures>;

    fn next(&self) -> Option<TrialRequest> {
        (self.left > 0).then_some(TrialRequest::Rate { rate: self.rate, seconds: self.seconds })
    }

    fn report(&mut self, trial: Trial) {
        self.left -= 1;
        self.trials.push(trial);
    }

    /// Returns `None` if no trial measured its latency.
    fn finish(self) -> Option<LatencyFigures> {
        let measured: Vec<_> = self.trials.iter().filter_map(|trial| trial.latency).collect();
        let means: Vec<f64> = measured.iter().map(|latency| latency.mean).collect();
        let p99s: Vec<f64> = measured.iter().map(|latency| latency.p99).collect();
        let (mean, deviation) = mean_and_deviation(&means)?;
        let (p99, _) = mean_and_deviation(&p99s)?;
        let loss = self.trials.iter().map(|trial| trial.loss).fold(0.0, f64::max);
        Some(LatencyFigures { rate: self.rate, trials: measured.len(), mean, deviation, p99, loss })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadgen::app::Latency;

    #[test]
    fn the_average_of_all_trials_is_reported() {
        let mut series = LatencyTrials::new(1e6, 120.0, 3);
        for (mean, loss) in [(10.0, 0.0), (20.0, 0.1), (30.0, 0.0)] {
            assert_eq!(series.next(), Some(TrialRequest::Rate { rate: 1e6, seconds: 120.0 }));
            let latency = Some(Latency { mean, p99: 2.0 * mean, ..Latency::default() });
            series.report(Trial { rate: 1e6, offered: 1e6, seconds: 120.0, loss, latency });
        }
        assert_eq!(series.next(), None);
        let expected = LatencyFigures { rate: 1e6, trials: 3, mean: 20.0, deviation: 10.0, p99: 40.0, loss: 0.1 };
        assert_eq!(series.finish(), Some(expected));
        assert_eq!(LatencyTrials::new(1e6, 1.0, 0).finish(), None);
    }
}
