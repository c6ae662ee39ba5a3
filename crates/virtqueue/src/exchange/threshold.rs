//! From which length on exchanges are better than copies, found from the bursts themselves.
//!
//! Which of the two is better for short frames depends on the distance of the processors, on the ring format, and on what
//! functions do with frames; and it changes while they run. So each queue now and then forwards some frames in either way, in turn.
//! The way in which more of them come is better: an exchange may cost the functions more than it saves the switch. If as many come
//! either way, then the one that takes the switch less time is better.

use super::turns::Turn;
use packet::{MAX_BURST, MAX_FRAME};
use std::time::{Duration, Instant};

/// Threshold before the first trial, in bytes.
pub const UNTRIED: u32 = 256;

/// Lengths that part the frames that are tried together. The last one is longer than any frame.
const LENGTHS: [u32; 9] = [0, 128, 256, 512, 1024, 2048, 4096, 8192, MAX_FRAME + 1];

/// Bursts between two trials: doubled as long as trials find the same, so that trying takes about one frame in a hundred.
const REST: u32 = 1 << 12;
const LONG_REST: u32 = 1 << 18;
/// Bursts until the next attempt of a queue whose turn it is not.
const WAIT: u32 = 1 << 9;
/// Bursts before the first trial.
const START: u32 = 1 << 7;
/// Bursts after which a trial is given up: traffic has changed.
const PATIENCE: u32 = 1 << 14;
/// Frames after a change of the way that do not count: those in flight were posted for the other way.
const SETTLE: u32 = 1024;
/// Frames that are timed together, and how many times in either way: the median leaves out those during which others had the
/// processor.
const TOGETHER: u32 = 4096;
const TIMES: usize = 9;
/// A difference in the rate of frames counts from one in this many on, if most comparisons have its sign.
const NOISE: u64 = 64;
const MOST: usize = 7;
/// Frames or bytes of a burst after which a trial may begin. Fewer of them come if there is not much to do.
const ENOUGH: u32 = MAX_BURST as u32 / 2;
const ENOUGH_BYTES: u64 = 32 << 10;

/// A burst during a trial.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    pub(super) frames: u32,
    pub(super) bytes: u64,
    /// When the switch began to receive it, and the time from then until its chains were returned.
    pub(super) began: Instant,
    pub(super) took: Duration,
}

/// How frames of the length on trial are forwarded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Exchange,
    Copy,
}

/// The threshold of a queue.
pub(super) struct Threshold {
    bytes: u32,
    /// Bursts until the next trial, if none is under way, and how many there are from one trial to the next.
    left: u32,
    rest: u32,
    trial: Option<Trial>,
}

/// Frames of one length, or nearly, that are exchanged and copied in turn.
struct Trial {
    /// Threshold with which these frames are exchanged, and the next higher one.
    exchanging: u32,
    copying: u32,
    way: Way,
    patience: u32,
    settle: u32,
    window: Window,
    /// What was found so far: by window, frames exchanged and frames copied.
    found: [[Found; 2]; TIMES],
    windows: usize,
    /// No other queue tries at the same time.
    _turn: Turn,
}

/// Frames that are timed together.
#[derive(Clone, Copy, Default)]
struct Window {
    began: Option<Instant>,
    frames: u32,
    took: Duration,
}

/// Picoseconds for a frame: from one frame to the next, and of the switch's own work.
#[derive(Clone, Copy, Default)]
struct Found {
    apart: u64,
    work: u64,
}

impl Default for Threshold {
    fn default() -> Self {
        Threshold { bytes: UNTRIED, left: START, rest: REST, trial: None }
    }
}

impl Threshold {
    /// Returns the length in bytes from which frames of the next burst are exchanged.
    #[inline(always)]
    pub(super) fn now(&self) -> u32 {
        match &self.trial {
            None => self.bytes,
            Some(trial) if trial.way == Way::Exchange => trial.exchanging,
            Some(trial) => trial.copying,
        }
    }

    /// Returns the length in bytes from which exchanges were found to be better.
    pub(super) fn found(&self) -> u32 {
        self.bytes
    }

    /// Reports whether the next burst has to be timed: none is while [`Threshold::pass`] counts them.
    #[inline(always)]
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Passes a burst. Returns true if it is time for a trial.
    #[inline(always)]
    pub(super) fn pass(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Begins a trial after a burst of so many frames with so many bytes together, if they are enough, and if this queue gets its
    /// turn. Returns true if it begins.
    #[cold]
    pub(super) fn begin(&mut self, frames: u32, bytes: u64, turn: impl FnOnce() -> Option<Turn>) -> bool {
        if frames < ENOUGH && bytes < ENOUGH_BYTES {
            return false;
        }
        let Some(turn) = turn() else {
            self.left = WAIT;
            return false;
        };
        let step = step_of(frames, bytes);
        self.trial = Some(Trial {
            exchanging: LENGTHS[step],
            copying: LENGTHS[step + 1],
            way: Way::Exchange,
            patience: PATIENCE,
            settle: SETTLE,
            window: Window::default(),
            found: Default::default(),
            windows: 0,
            _turn: turn,
        });
        true
    }

    /// Counts a burst during a trial. Returns true if the threshold in force changes.
    #[cold]
    pub(super) fn try_burst(&mut self, burst: Burst) -> bool {
        let Some(trial) = &mut self.trial else { return false };
        trial.patience -= 1;
        if trial.patience == 0 {
            self.end(self.bytes);
            return true;
        }
        let is_other = LENGTHS[step_of(burst.frames, burst.bytes)] != trial.exchanging;
        if trial.settle > 0 || is_other {
            // Time passes between frames of other lengths, too: the window starts anew.
            trial.window = Window::default();
            trial.settle = trial.settle.saturating_sub(burst.frames);
            return false;
        }
        let Some(found) = trial.window.add(burst) else { return false };
        trial.found[trial.windows / 2][trial.way as usize] = found;
        trial.windows += 1;
        trial.settle = SETTLE;
        trial.way = if trial.way == Way::Exchange { Way::Copy } else { Way::Exchange };
        if trial.windows == 2 * TIMES {
            let bytes = match better(&trial.found) {
                Way::Exchange => self.bytes.min(trial.exchanging),
                Way::Copy => self.bytes.max(trial.copying),
            };
            self.end(bytes);
        }
        true
    }

    /// Ends a trial that found this threshold.
    fn end(&mut self, bytes: u32) {
        self.rest = if bytes == self.bytes { LONG_REST.min(2 * self.rest) } else { REST };
        (self.bytes, self.trial, self.left) = (bytes, None, self.rest);
    }
}

impl Window {
    /// Adds a burst. Returns what was found if the window ends with it.
    fn add(&mut self, Burst { frames, began, took, .. }: Burst) -> Option<Found> {
        let Some(first) = self.began else {
            // The time from here on counts, and the frames that come in it.
            self.began = Some(began + took);
            return None;
        };
        self.frames += frames;
        self.took += took;
        if self.frames < TOGETHER {
            return None;
        }
        let of_each = |time: Duration| time.as_nanos() as u64 * 1000 / u64::from(self.frames);
        let found = Found { apart: of_each((began + took).saturating_duration_since(first)), work: of_each(self.took) };
        *self = Window::default();
        Some(found)
    }
}

/// Returns the way in which more frames came; if as many came either way, the one that took the switch less time.
fn better(found: &[[Found; 2]; TIMES]) -> Way {
    let [exchange, copy] = [Way::Exchange as usize, Way::Copy as usize];
    let mut apart: Vec<_> = found.iter().map(|of| of[exchange].apart as f64 / of[copy].apart.max(1) as f64).collect();
    apart.sort_unstable_by(f64::total_cmp);
    let (median, noise) = (apart[TIMES / 2], 1.0 / NOISE as f64);
    if median > 1.0 + noise && apart[TIMES - MOST] > 1.0 {
        return Way::Copy;
    }
    if median < 1.0 - noise && apart[MOST - 1] < 1.0 {
        return Way::Exchange;
    }
    let work = |way: usize| {
        let mut work = found.map(|of| of[way].work);
        work.sort_unstable();
        work[TIMES / 2]
    };
    if work(exchange) <= work(copy) { Way::Exchange } else { Way::Copy }
}

/// Returns the step of [`LENGTHS`] that the mean length of a burst's frames is in.
fn step_of(frames: u32, bytes: u64) -> usize {
    let mean = bytes / u64::from(frames.max(1));
    LENGTHS[1..].iter().position(|length| mean < u64::from(*length)).unwrap_or(LENGTHS.len() - 2)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::turns::Turns;
    use super::*;
    use std::sync::Arc;

    /// Nanoseconds that a frame takes the switch, and the functions.
    #[derive(Clone, Copy, Debug)]
    struct Costs(u64, u64);

    struct Queue {
        threshold: Threshold,
        turns: Arc<Turns>,
        now: Instant,
    }

    impl Queue {
        fn new() -> Queue {
            Queue { threshold: Threshold::default(), turns: Turns::new(), now: Instant::now() }
        }

        /// Runs bursts of `len` bytes a frame, which cost as much as `exchange` or `copy` say; returns the threshold found, and the
        /// share of bursts that were forwarded in the way that is not `better`.
        fn run(&mut self, len: u64, exchange: Costs, copy: Costs, better: Way) -> (u32, f64) {
            let (bursts, mut worse) = (5 * LONG_REST, 0);
            for burst in 0..bursts {
                let way = if len >= u64::from(self.threshold.now()) { Way::Exchange } else { Way::Copy };
                worse += u32::from(way != better);
                let Costs(switch, functions) = if way == Way::Exchange { exchange } else { copy };
                // Now and then, another process has the processor.
                let lost = if burst % 1500 == 0 { 1_000_000 } else { 0 };
                let took = Duration::from_nanos(32 * switch + lost);
                if self.threshold.is_trying() {
                    let burst = Burst { frames: 32, bytes: 32 * len, began: self.now, took };
                    self.threshold.try_burst(burst);
                } else if self.threshold.pass() {
                    self.threshold.begin(32, 32 * len, || self.turns.take(self.now));
                }
                self.now += Duration::from_nanos(32 * switch.max(functions) + lost);
            }
            (self.threshold.found(), f64::from(worse) / f64::from(bursts))
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many bursts")]
    fn the_better_way_is_found_and_found_again_when_it_changes() {
        use Way::{Copy, Exchange};
        let mut queue = Queue::new();
        for (len, exchange, copy, better, found) in [
            // The switch is the limit.
            (60, Costs(20, 10), Costs(30, 10), Exchange, 0),
            (60, Costs(30, 10), Costs(20, 10), Copy, 128),
            // The functions are, and what they do counts.
            (60, Costs(20, 100), Costs(30, 80), Copy, 128),
            (60, Costs(30, 80), Costs(20, 100), Exchange, 0),
            // They are, and it is all the same to them.
            (60, Costs(30, 100), Costs(20, 100), Copy, 128),
            (60, Costs(20, 100), Costs(30, 100), Exchange, 0),
            (300, Costs(31, 10), Costs(30, 10), Copy, 512),
            (600, Costs(31, 10), Costs(30, 10), Copy, 1024),
            (9000, Costs(100, 10), Costs(10, 10), Copy, MAX_FRAME + 1),
            (1518, Costs(10, 10), Costs(100, 10), Exchange, 1024),
        ] {
            let (threshold, worse) = queue.run(len, exchange, copy, better);
            assert_eq!(threshold, found, "{len} bytes, {exchange:?} against {copy:?}");
            assert!(worse < 0.25, "{worse}");
        }
        let (_, worse) = queue.run(1518, Costs(10, 10), Costs(100, 10), Exchange);
        assert!(worse < 0.02, "trials take less than one burst in fifty: {worse}");
    }

    #[test]
    fn a_trial_ends_when_its_frames_do() {
        let mut queue = Queue::new();
        let begin = |threshold: &mut Threshold, frames| {
            threshold.pass() && threshold.begin(frames, u64::from(frames) * 60, || queue.turns.take(queue.now))
        };
        (0..2 * START).for_each(|_| assert!(!begin(&mut queue.threshold, 1), "bursts of few frames begin none"));
        assert!(begin(&mut queue.threshold, 32));
        let burst = Burst { frames: 1, bytes: 1000, began: queue.now, took: Duration::ZERO };
        (0..PATIENCE).for_each(|_| _ = queue.threshold.try_burst(burst));
        assert!(!queue.threshold.is_trying() && queue.threshold.found() == UNTRIED);
    }

    #[test]
    fn two_queues_of_a_group_do_not_try_at_once() {
        let (turns, now) = (Turns::new(), Instant::now());
        let [mut first, mut second] = [Threshold::default(), Threshold::default()];
        assert!(first.begin(32, 32 * 60, || turns.take(now)));
        assert!(!second.begin(32, 32 * 60, || turns.take(now)));
        drop(first);
        assert!(second.begin(32, 32 * 60, || turns.take(now)));
    }
}
