//! Back-to-back frames (RFC 2544 §26.4, RFC 9004): the longest burst without loss.

use crate::search::record::Trial;
use crate::search::{Series, TrialRequest};
use crate::statistics::{Spread, mean_and_deviation};

/// Settings of the search for the longest burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Number of searches; each starts from the beginning.
    pub repetitions: usize,
    /// Frames between a burst without loss and one with loss at which a search ends, and frames of the first burst: at least 1.
    pub step: u64,
    /// Frames of the longest burst that is tried.
    pub limit: u64,
    /// Times that a burst with loss is tried again: loss that has another cause than full buffers does not come back.
    pub verify: u32,
}

/// Results of all searches, in frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstFigures {
    /// Average of the longest bursts.
    pub average: f64,
    /// Their spread.
    pub spread: Spread,
    /// Their standard deviation.
    pub deviation: f64,
    /// The settings.
    pub bursts: Bursts,
    /// Number of searches that ended.
    pub repetitions: usize,
}

/// The searches for one frame size. Bursts double until frames are lost; then the middle is tried.
#[derive(Clone, Debug)]
pub struct BackToBack {
    bursts: Bursts,
    /// Longest bursts of the searches that have ended.
    found: Vec<f64>,
    /// Longest burst without loss, and shortest with loss.
    carried: u64,
    lost: Option<u64>,
    /// Frames of the next burst, and how often it has lost frames.
    frames: u64,
    losses: u32,
}

impl BackToBack {
    /// Begins the first search.
    pub fn new(bursts: Bursts) -> BackToBack {
        let frames = bursts.step.min(bursts.limit);
        BackToBack { bursts, found: Vec::new(), carried: 0, lost: None, frames, losses: 0 }
    }

    /// Chooses the next burst, of this search or of the next one.
    fn choose(&mut self) {
        let is_found = match self.lost {
            Some(lost) => lost - self.carried <= self.bursts.step,
            None => self.carried >= self.bursts.limit,
        };
        if is_found {
            self.found.push(self.carried as f64);
            *self = BackToBack { found: std::mem::take(&mut self.found), ..BackToBack::new(self.bursts) };
            return;
        }
        self.losses = 0;
        self.frames = match self.lost {
            Some(lost) => self.carried + (lost - self.carried) / 2,
            None => self.carried.saturating_mul(2).min(self.bursts.limit),
        };
    }
}

impl Series for BackToBack {
    type Figures = Option<BurstFigures>;

    fn next(&self) -> Option<TrialRequest> {
        (self.found.len() < self.bursts.repetitions).then_some(TrialRequest::Burst { frames: self.frames })
    }

    fn report(&mut self, trial: Trial) {
        if trial.loss == 0.0 {
            self.carried = self.frames;
        } else if self.losses < self.bursts.verify {
            self.losses += 1;
            return;
        } else {
            self.lost = Some(self.frames);
        }
        self.choose();
    }

    /// Returns `None` if no search has ended.
    fn finish(self) -> Option<BurstFigures> {
        let (average, deviation) = mean_and_deviation(&self.found)?;
        let spread = Spread::of(self.found.iter().copied())?;
        Some(BurstFigures { average, spread, deviation, bursts: self.bursts, repetitions: self.found.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BURSTS: Bursts = Bursts { repetitions: 3, step: 1, limit: 4096, verify: 1 };

    /// Searches with a switch that loses frames if `loses` says so of a burst and the number of its trial; returns the number of
    /// trials, too.
    fn searched(bursts: Bursts, mut loses: impl FnMut(u64, usize) -> bool) -> (BurstFigures, usize) {
        let mut series = BackToBack::new(bursts);
        let mut trials = 0;
        while let Some(TrialRequest::Burst { frames }) = series.next() {
            assert!((1..=bursts.limit).contains(&frames));
            trials += 1;
            let loss = if loses(frames, trials) { 0.1 } else { 0.0 };
            series.report(Trial { rate: 1e6, offered: 1e6, seconds: frames as f64 / 1e6, loss, latency: None });
        }
        (series.finish().unwrap(), trials)
    }

    #[test]
    fn every_burst_can_be_the_longest() {
        let (most, _) = searched(BURSTS, |_, _| false);
        assert_eq!((most.average, most.repetitions), (4096.0, 3));
        let (none, _) = searched(BURSTS, |_, _| true);
        assert_eq!((none.average, none.deviation), (0.0, 0.0));
    }

    #[test]
    fn loss_of_another_cause_is_tried_again() {
        let (figures, _) = searched(BURSTS, |frames, trial| frames > 300 || trial % 4 == 0);
        assert_eq!(figures.spread, Spread { median: 300.0, min: 300.0, max: 300.0 });
        let (misled, _) = searched(Bursts { verify: 0, ..BURSTS }, |frames, trial| frames > 300 || trial % 4 == 0);
        assert!(misled.average < 300.0, "{misled:?}");
    }

    #[test]
    fn nothing_found_is_nothing_reported() {
        assert_eq!(BackToBack::new(BURSTS).finish(), None);
        assert_eq!(BackToBack::new(Bursts { repetitions: 0, ..BURSTS }).next(), None);
    }

    proptest! {
        #[test]
        fn the_longest_burst_is_found(longest in 0..5000_u64, step in 1..100_u64, limit in 1..5000_u64) {
            let bursts = Bursts { repetitions: 2, step, limit, verify: 1 };
            let (figures, trials) = searched(bursts, |frames, _| frames > longest);
            let (found, longest) = (figures.average as u64, longest.min(limit));
            prop_assert!(found <= longest && longest < found + step.max(1), "{found} of {longest}");
            prop_assert_eq!(figures.deviation, 0.0);
            prop_assert!(trials <= 2 * 3 * 14, "{trials}");
        }
    }
}
