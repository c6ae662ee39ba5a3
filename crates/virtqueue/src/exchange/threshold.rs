//! From which length on exchanges take less time than copies, found from the bursts themselves.
//!
//! Which of the two is faster for short frames depends on the distance of the processors, on the ring format, and on what
//! functions do with frames; and it changes while they run. So each queue now and then forwards some bursts in either way, and
//! compares how long the switch took for a frame. Both ways pay for the lines that move between processors.

use packet::MAX_BURST;
use std::time::Duration;

/// Threshold before the first trial, in bytes.
pub const UNTRIED: u32 = 256;

/// Lengths that part the frames that are tried together. Longer ones are always exchanged.
const LENGTHS: [u32; 5] = [0, 128, 256, 512, 1024];

/// Bursts between two trials: a trial of the slower way costs about one burst in a hundred.
const REST: u32 = 1 << 14;
/// Bursts after which a trial is given up: traffic has changed.
const PATIENCE: u32 = 1 << 10;
/// Bursts after a change of the way that do not count: those in flight were posted for the other way.
const SETTLE: u32 = 32;
/// Bursts that are timed together, and how many times: the median leaves out those during which others had the processor.
const TOGETHER: u32 = 16;
const TIMES: usize = 7;
/// Frames of a burst that counts. A burst of few frames has the same fixed cost for each of them in both ways.
const ENOUGH: u32 = MAX_BURST as u32 / 2;

/// How frames of the length on trial are forwarded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Exchange,
    Copy,
}

/// The threshold of a queue.
pub(crate) struct Threshold {
    bytes: u32,
    /// Bursts until the next trial, if none is under way.
    rest: u32,
    trial: Option<Trial>,
}

/// Bursts of frames of one length, or nearly, that are exchanged first and copied then.
struct Trial {
    /// Threshold with which these frames are exchanged, and the next higher one.
    exchanging: u32,
    copying: u32,
    way: Way,
    patience: u32,
    settle: u32,
    /// Bursts, frames and time of the present group, and the times of a frame in the groups before, in picoseconds.
    bursts: u32,
    frames: u32,
    time: Duration,
    times: [u64; TIMES],
    groups: usize,
    /// Median of the first way.
    exchanged: u64,
}

impl Default for Threshold {
    fn default() -> Self {
        Threshold { bytes: UNTRIED, rest: SETTLE, trial: None }
    }
}

impl Threshold {
    /// Returns the length in bytes from which frames of the next burst are exchanged.
    #[inline(always)]
    pub(crate) fn now(&self) -> u32 {
        match &self.trial {
            None => self.bytes,
            Some(trial) if trial.way == Way::Exchange => trial.exchanging,
            Some(trial) => trial.copying,
        }
    }

    /// Returns the length in bytes from which exchanges were found to be faster.
    pub(crate) fn found(&self) -> u32 {
        self.bytes
    }

    /// Reports whether the next burst has to be timed: none is while [`Threshold::pass`] counts them.
    #[inline(always)]
    pub(crate) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Passes a burst of so many frames with so many bytes together. Returns true if a trial begins.
    #[inline(always)]
    pub(crate) fn pass(&mut self, frames: u32, bytes: u64) -> bool {
        self.rest = self.rest.saturating_sub(1);
        self.rest == 0 && self.begin(frames, bytes)
    }

    #[cold]
    fn begin(&mut self, frames: u32, bytes: u64) -> bool {
        let Some(step) = step_of(frames, bytes) else { return false };
        self.trial = Some(Trial {
            exchanging: LENGTHS[step],
            copying: LENGTHS[step + 1],
            way: Way::Exchange,
            patience: PATIENCE,
            settle: SETTLE,
            bursts: 0,
            frames: 0,
            time: Duration::ZERO,
            times: [0; TIMES],
            groups: 0,
            exchanged: 0,
        });
        true
    }

    /// Counts a burst during a trial, and the time that the switch took from receiving it to returning its chains. Returns true if
    /// the threshold in force changes.
    #[cold]
    pub(crate) fn try_burst(&mut self, frames: u32, bytes: u64, time: Duration) -> bool {
        let Some(trial) = &mut self.trial else { return false };
        trial.patience = trial.patience.saturating_sub(1);
        if trial.patience == 0 {
            return self.end();
        }
        if trial.settle > 0 {
            trial.settle -= 1;
            return false;
        }
        let is_same = step_of(frames, bytes).is_some_and(|step| LENGTHS[step] == trial.exchanging);
        if !is_same || !trial.add(frames, time) {
            return false;
        }
        let median = trial.median();
        match trial.way {
            Way::Exchange => {
                trial.exchanged = median;
                (trial.way, trial.settle, trial.groups) = (Way::Copy, SETTLE, 0);
                return true;
            }
            Way::Copy if trial.exchanged <= median => self.bytes = self.bytes.min(trial.exchanging),
            Way::Copy => self.bytes = self.bytes.max(trial.copying),
        }
        self.end()
    }

    fn end(&mut self) -> bool {
        (self.trial, self.rest) = (None, REST);
        true
    }
}

impl Trial {
    /// Adds a burst; reports whether there are enough.
    fn add(&mut self, frames: u32, time: Duration) -> bool {
        self.bursts += 1;
        self.frames += frames;
        self.time += time;
        if self.bursts == TOGETHER {
            self.times[self.groups] = self.time.as_nanos() as u64 * 1000 / u64::from(self.frames);
            self.groups += 1;
            (self.bursts, self.frames, self.time) = (0, 0, Duration::ZERO);
        }
        self.groups == TIMES
    }

    fn median(&mut self) -> u64 {
        self.times.sort_unstable();
        self.times[TIMES / 2]
    }
}

/// Returns the step of [`LENGTHS`] that the mean length of a burst's frames is in, if that is tried and the burst counts.
fn step_of(frames: u32, bytes: u64) -> Option<usize> {
    let mean = (frames >= ENOUGH).then(|| bytes / u64::from(frames))?;
    LENGTHS[1..].iter().position(|length| mean < u64::from(*length))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs bursts of `len` bytes a frame, which take as long as `exchange` or `copy` say; returns the threshold after some trials,
    /// and the share of bursts that were forwarded in the way that is slower.
    fn run(threshold: &mut Threshold, len: u64, exchange: u64, copy: u64) -> f64 {
        let bursts = 5 * (REST + PATIENCE);
        let mut slow = 0;
        for burst in 0..bursts {
            let exchanges = len >= u64::from(threshold.now());
            slow += u32::from(exchanges != (exchange <= copy));
            // Now and then, another process has the processor.
            let lost = if burst % 50 == 0 { 1_000_000 } else { 0 };
            let time = Duration::from_nanos(32 * if exchanges { exchange } else { copy } + lost);
            if threshold.is_trying() {
                threshold.try_burst(32, 32 * len, time);
            } else {
                threshold.pass(32, 32 * len);
            }
        }
        f64::from(slow) / f64::from(bursts)
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_when_it_changes() {
        let mut threshold = Threshold::default();
        for (len, exchange, copy, found) in [
            (60, 20, 30, 0),
            (60, 30, 20, 128),
            (60, 20, 30, 0),
            (300, 31, 30, 512),
            (600, 31, 30, 1024),
            (600, 29, 30, 512),
            // Not tried.
            (1518, 100, 10, 512),
        ] {
            let slow = run(&mut threshold, len, exchange, copy);
            assert_eq!(threshold.found(), found, "{len} bytes, {exchange} against {copy}");
            assert!(len > 1024 || slow < 0.25, "{slow}");
        }
        assert!(run(&mut threshold, 60, 20, 30) < 0.25);
        assert!(run(&mut threshold, 60, 20, 30) < 0.02, "trials take less than one burst in fifty");
    }

    #[test]
    fn a_trial_ends_when_its_frames_do() {
        let mut threshold = Threshold::default();
        (0..=SETTLE).for_each(|_| _ = threshold.pass(32, 32 * 60));
        assert!(threshold.is_trying());
        (0..PATIENCE).for_each(|_| _ = threshold.try_burst(1, 1000, Duration::ZERO));
        assert!(!threshold.is_trying() && threshold.found() == UNTRIED);
        (0..2 * REST).for_each(|_| assert!(!threshold.pass(1, 60), "bursts of few frames begin none"));
    }
}
