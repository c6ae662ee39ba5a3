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

/// Bursts between two trials, at least: there are as many as make the trial of the worse way cost one hundredth of the time.
const REST: u32 = 1 << 13;
const LONGEST_REST: u32 = 1 << 22;
/// Bursts to the next trial after one that found nothing, as with frames of many lengths, or few in a burst.
const NOTHING_FOUND: u32 = 1 << 20;
const SHARE: f64 = 100.0;
/// Bursts until the next attempt of a queue whose turn it is not.
const WAIT: u32 = 1 << 9;
/// Bursts before the first trial.
const START: u32 = 1 << 7;
/// Bursts after which a trial is given up: traffic has changed.
const PATIENCE: u32 = 1 << 14;
/// Frames after a change of the way that do not count: those in flight were posted for the other way.
const SETTLE: u32 = 1024;
/// Frames or bytes that are timed together, and how many times in either way: the median leaves out those during which others had
/// the processor.
const TOGETHER: u32 = 4096;
const TOGETHER_BYTES: u64 = 4 << 20;
const TIMES: usize = 9;
/// A difference in the rate of frames counts from this ratio on, if most comparisons have its sign.
const NOISE: f64 = 1.0 + 1.0 / 64.0;
const MOST: usize = 7;
/// A pause in which the function sent nothing, or had no processor: it does not count.
const PAUSE: Duration = Duration::from_millis(1);
/// A trial ends after this many comparisons, if all of them find this ratio.
const FEW: usize = 3;
const CLEAR: f64 = 1.25;
/// Frames or bytes of a burst after which a trial may begin. Fewer of them come if there is not much to do.
const ENOUGH: u32 = MAX_BURST as u32 / 2;
const ENOUGH_BYTES: u64 = 32 << 10;

/// A burst during a trial.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    pub(super) frames: u32,
    pub(super) bytes: u64,
    pub(super) exchanged: u32,
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

/// The better way, and by how much the other one takes longer.
#[derive(Clone, Copy)]
struct Verdict {
    better: Way,
    excess: f64,
}

/// The threshold of a queue.
pub(super) struct Threshold {
    bytes: u32,
    /// Bursts until the next trial, if none is under way.
    left: u32,
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
    /// The findings so far: by window, in either way.
    found: [[Found; 2]; TIMES],
    windows: usize,
    /// Frames in all windows of either way, and those that were exchanged.
    frames: [u32; 2],
    exchanged: [u32; 2],
    /// No other queue tries at the same time.
    turn: Turn,
}

/// Frames that are timed together.
#[derive(Clone, Copy, Default)]
struct Window {
    /// When it began, and when its last burst ended.
    began: Option<Instant>,
    ended: Option<Instant>,
    frames: u32,
    bytes: u64,
    exchanged: u32,
    took: Duration,
}

/// Picoseconds for a frame: from one frame to the next, and of the switch's own work.
#[derive(Clone, Copy, Default)]
struct Found {
    apart: u64,
    work: u64,
}

impl Threshold {
    /// Returns a threshold of so many bytes, until the first trial.
    pub(super) fn new(bytes: u32) -> Threshold {
        Threshold { bytes, left: START, trial: None }
    }

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
            frames: [0; 2],
            exchanged: [0; 2],
            turn,
        });
        true
    }

    /// Counts a burst during a trial. Returns true if the threshold in force changes.
    #[cold]
    pub(super) fn try_burst(&mut self, burst: Burst) -> bool {
        let Some(trial) = &mut self.trial else { return false };
        trial.patience -= 1;
        if trial.patience == 0 || !trial.turn.is_held() {
            self.end(self.bytes, NOTHING_FOUND);
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
        let way = trial.way as usize;
        trial.found[trial.windows / 2][way] = found;
        trial.frames[way] += trial.window.frames;
        trial.exchanged[way] += trial.window.exchanged;
        trial.window = Window::default();
        trial.windows += 1;
        trial.settle = SETTLE;
        trial.way = if trial.way == Way::Exchange { Way::Copy } else { Way::Exchange };
        if trial.windows % 2 == 0
            && let Some(Verdict { better, excess }) = judge(&trial.found[..trial.windows / 2])
        {
            if !trial.differs() {
                self.end(self.bytes, NOTHING_FOUND);
                return true;
            }
            let bytes = match better {
                Way::Exchange => self.bytes.min(trial.exchanging),
                Way::Copy => self.bytes.max(trial.copying),
            };
            let frames = f64::from(trial.windows as u32 / 2 * (SETTLE + TOGETHER));
            let rest = SHARE * excess * frames / f64::from(burst.frames);
            self.end(bytes, REST.max(rest as u32).min(LONGEST_REST));
        }
        true
    }

    /// Ends a trial that found this threshold.
    fn end(&mut self, bytes: u32, rest: u32) {
        (self.bytes, self.trial, self.left) = (bytes, None, rest);
    }
}

impl Trial {
    /// Reports whether most frames were exchanged in the one way and copied in the other. They were not if none can be exchanged, or
    /// if none has the length on trial, but only the mean of a burst.
    fn differs(&self) -> bool {
        let [exchange, copy] = [Way::Exchange as usize, Way::Copy as usize];
        let share = |way: usize| f64::from(self.exchanged[way]) / f64::from(self.frames[way].max(1));
        share(exchange) - share(copy) > 0.5
    }
}

impl Window {
    /// Adds a burst. Returns what was found if the window ends with it.
    fn add(&mut self, Burst { frames, bytes, exchanged, began, took }: Burst) -> Option<Found> {
        let ended = self.ended.replace(began + took);
        let (Some(first), Some(ended)) = (self.began, ended) else {
            // The time from here on counts, and the frames that come in it.
            self.began = self.ended;
            return None;
        };
        if began.saturating_duration_since(ended) > PAUSE {
            *self = Window::default();
            return None;
        }
        self.frames += frames;
        self.bytes += bytes;
        self.exchanged += exchanged;
        self.took += took;
        if self.frames < TOGETHER && self.bytes < TOGETHER_BYTES {
            return None;
        }
        let of_each = |time: Duration| time.as_nanos() as u64 * 1000 / u64::from(self.frames);
        Some(Found { apart: of_each((began + took).saturating_duration_since(first)), work: of_each(self.took) })
    }
}

/// Returns the way in which more frames came; if as many came either way, the one that took the switch less time. `None` if that
/// is not clear yet.
fn judge(found: &[[Found; 2]]) -> Option<Verdict> {
    let [exchange, copy] = [Way::Exchange as usize, Way::Copy as usize];
    let ratio = |exchange: u64, copy: u64| exchange as f64 / copy.max(1) as f64;
    let mut ratios: Vec<f64> = found.iter().map(|of| ratio(of[exchange].apart, of[copy].apart)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let (count, median) = (ratios.len(), ratios[ratios.len() / 2]);
    let is_beyond = |least: f64, most: usize| {
        let copies = median > least && ratios[count - most] > 1.0;
        copies || (median < 1.0 / least && ratios[most - 1] < 1.0)
    };
    let verdict = |ratio: f64| match ratio > 1.0 {
        true => Verdict { better: Way::Copy, excess: ratio - 1.0 },
        false => Verdict { better: Way::Exchange, excess: 1.0 / ratio - 1.0 },
    };
    let is_clear = count >= FEW && (ratios[0] > CLEAR || ratios[count - 1] < 1.0 / CLEAR);
    if is_clear || (count == TIMES && is_beyond(NOISE, MOST)) {
        return Some(verdict(median));
    }
    (count == TIMES).then(|| {
        let work = |way: usize| {
            let mut work: Vec<u64> = found.iter().map(|of| of[way].work).collect();
            work.sort_unstable();
            work[count / 2]
        };
        verdict(ratio(work(exchange).max(1), work(copy)))
    })
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
            Queue { threshold: Threshold::new(UNTRIED), turns: Turns::new(), now: Instant::now() }
        }

        /// Runs bursts of `len` bytes a frame, which cost as much as `exchange` or `copy` say, until two trials have ended; returns the
        /// threshold found, and the share of time that was lost in the way that is not `better`.
        fn run(&mut self, len: u64, exchange: Costs, copy: Costs, better: Way) -> (u32, f64) {
            let (began, mut bursts, mut wasted, mut trials) = (self.now, 0, Duration::ZERO, 0);
            let time = |Costs(switch, functions): Costs| Duration::from_nanos(32 * switch.max(functions));
            while trials < 2 {
                bursts += 1;
                let way = if len >= u64::from(self.threshold.now()) { Way::Exchange } else { Way::Copy };
                let costs = if way == Way::Exchange { exchange } else { copy };
                if way != better {
                    wasted += time(costs).saturating_sub(time(if way == Way::Exchange { copy } else { exchange }));
                }
                // Now and then, another process has the processor.
                let lost = Duration::from_millis(if bursts % 1500 == 0 { 1 } else { 0 });
                let took = Duration::from_nanos(32 * costs.0) + lost;
                if self.threshold.is_trying() {
                    let exchanged = if way == Way::Exchange { 32 } else { 0 };
                    self.threshold.try_burst(Burst { frames: 32, bytes: 32 * len, exchanged, began: self.now, took });
                    trials += u32::from(!self.threshold.is_trying());
                } else if self.threshold.pass() {
                    self.threshold.begin(32, 32 * len, || self.turns.take(self.now));
                }
                self.now += time(costs) + lost;
            }
            (self.threshold.found(), wasted.as_secs_f64() / self.now.duration_since(began).as_secs_f64())
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
            let (threshold, _) = queue.run(len, exchange, copy, better);
            assert_eq!(threshold, found, "{len} bytes, {exchange:?} against {copy:?}");
            let (threshold, wasted) = queue.run(len, exchange, copy, better);
            assert!(threshold == found && wasted < 0.02, "trials waste {wasted} of the time");
        }
    }

    #[test]
    fn a_trial_ends_when_its_frames_do() {
        let mut queue = Queue::new();
        let begin = |threshold: &mut Threshold, frames| {
            threshold.pass() && threshold.begin(frames, u64::from(frames) * 60, || queue.turns.take(queue.now))
        };
        (0..2 * START).for_each(|_| assert!(!begin(&mut queue.threshold, 1), "bursts of few frames begin none"));
        assert!(begin(&mut queue.threshold, 32));
        let burst = Burst { frames: 1, bytes: 1000, exchanged: 1, began: queue.now, took: Duration::ZERO };
        (0..PATIENCE).for_each(|_| _ = queue.threshold.try_burst(burst));
        assert!(!queue.threshold.is_trying() && queue.threshold.found() == UNTRIED);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many bursts")]
    fn nothing_is_found_with_frames_that_are_never_exchanged() {
        let mut queue = Queue::new();
        (0..START).for_each(|_| _ = queue.threshold.pass());
        assert!(queue.threshold.begin(32, 32 * 60, || queue.turns.take(queue.now)));
        while queue.threshold.is_trying() {
            // Whatever the threshold is: as if the port were outside the exchange, and faster in one way by chance.
            let took = Duration::from_nanos(if queue.threshold.now() == 0 { 500 } else { 900 });
            queue.threshold.try_burst(Burst { frames: 32, bytes: 32 * 60, exchanged: 0, began: queue.now, took });
            queue.now += took;
        }
        assert_eq!(queue.threshold.found(), UNTRIED);
    }

    #[test]
    fn a_pause_does_not_count() {
        let mut window = Window::default();
        let (now, took) = (Instant::now(), Duration::from_nanos(3200));
        let burst = |began| Burst { frames: 32, bytes: 32 * 60, exchanged: 32, began, took };
        let mut found = None;
        for at in (0..64).map(|burst| took * burst).chain((0..200).map(|burst| 20 * PAUSE + took * burst)) {
            found = found.or(window.add(burst(now + at)));
        }
        assert_eq!(found.expect("there were enough").apart, 100_000);
    }

    #[test]
    fn two_queues_of_a_group_do_not_try_at_once() {
        let (turns, now) = (Turns::new(), Instant::now());
        let [mut first, mut second] = [Threshold::new(UNTRIED), Threshold::new(UNTRIED)];
        assert!(first.begin(32, 32 * 60, || turns.take(now)));
        assert!(!second.begin(32, 32 * 60, || turns.take(now)));
        drop(first);
        assert!(second.begin(32, 32 * 60, || turns.take(now)));
    }
}
