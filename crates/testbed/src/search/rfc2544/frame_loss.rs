//! Frame loss rate (RFC 2544 §26.3): from the greatest rate downwards, until two successive trials lose nothing.

use crate::search::record::Trial;
use crate::search::{Series, TrialRequest};

/// The trials of one frame size.
#[derive(Clone, Debug)]
pub struct FrameLoss {
    max: f64,
    step: f64,
    seconds: f64,
    trials: Vec<Trial>,
}

impl FrameLoss {
    /// Begins with `max` packets per second; each rate is less than the one before by `step`, as a share of `max`.
    pub fn new(max: f64, step: f64, seconds: f64) -> FrameLoss {
        FrameLoss { max, step, seconds, trials: Vec::new() }
    }
}

impl Series for FrameLoss {
    type Figures = Vec<Trial>;

    fn next(&self) -> Option<TrialRequest> {
        let is_done = matches!(self.trials[..], [.., a, b] if a.loss == 0.0 && b.loss == 0.0);
        let share = 1.0 - self.step * self.trials.len() as f64;
        // Half a step above 0: steps do not add up exactly.
        let is_next = !is_done && share > self.step / 2.0;
        is_next.then_some(TrialRequest::Rate { rate: share * self.max, seconds: self.seconds })
    }

    fn report(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    fn finish(self) -> Vec<Trial> {
        self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rates that are tried, in percent, if those above `carried` lose packets.
    fn rates(step: f64, carried: f64) -> Vec<f64> {
        let mut series = FrameLoss::new(100.0, step, 1.0);
        while let Some(TrialRequest::Rate { rate, seconds }) = series.next() {
            let loss = if rate > carried { 0.1 } else { 0.0 };
            series.report(Trial { rate, offered: rate, seconds, loss, latency: None });
        }
        series.finish().iter().map(|trial| trial.rate.round()).collect()
    }

    #[test]
    fn two_trials_without_loss_are_the_end() {
        assert_eq!(rates(0.1, 75.0), [100.0, 90.0, 80.0, 70.0, 60.0]);
        assert_eq!(rates(0.1, 100.0), [100.0, 90.0]);
        assert_eq!(rates(0.05, 91.0), [100.0, 95.0, 90.0, 85.0]);
    }

    #[test]
    fn no_rate_is_the_end_too() {
        assert_eq!(rates(0.1, 0.0), [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]);
    }
}
