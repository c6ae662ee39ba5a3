//! The length from which a group of queues forwards frames directly, without a copy, found from its bursts.
//!
//! The better way for short frames depends on the distance of the processors, on the ring format, and on the work of the
//! functions; and it changes while they run. So now and then all queues of a group forward frames of about one length directly and
//! by a copy in turn, and the group keeps the better way. They do so together because a way that costs the functions time costs it in
//! all of their queues.

use super::trial::{Burst, End, PATIENCE, STEPS, Trial, step_of};
use super::verdict::Way;
use packet::MAX_BURST;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Number of frames after which a change of the way has come through, unless rings hold more.
pub const SETTLE: u32 = 1024;

/// A group rests for ten times the time that a trial took, as its bursts are timed in it, and not all go the way that was found. If
/// the trial found the same as the one before, frames of its length rest for a hundred times the time that it wasted in the worse
/// way. No rest is longer than the one after the longest trial, as a better way has to wait until it ends.
const TIMED: u32 = 10;
const WASTED: u32 = 100;
const LONGEST_REST: Duration = PATIENCE.saturating_mul(TIMED);
/// Rest of a length after a trial that found nothing, as with frames of many lengths, or few in a burst.
const NOTHING_FOUND: Duration = Duration::from_secs(1);
/// Frames or bytes of a burst after which a trial may begin. Fewer of them come if there is not much to do.
const ENOUGH: u32 = MAX_BURST as u32 / 2;
const ENOUGH_BYTES: u64 = 32 << 10;

/// The trials of a group.
#[derive(Debug)]
#[repr(align(64))] // Queues read it for every burst, and others write to memory beside it.
pub struct Trials {
    /// Length in bytes from which frames are forwarded directly just now; and whether a trial is under way.
    threshold: AtomicU32,
    is_trying: AtomicBool,
    /// Number of frames that are in flight after a change of the way.
    settle: u32,
    /// No queue waits for another here: it counts a burst later instead.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Length from which the direct way was found to be better.
    found: u32,
    /// Time until which the group rests.
    rest: Option<Instant>,
    steps: [Step; STEPS],
    trial: Option<Trial>,
}

/// Frames of one step.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Time until which they rest.
    rest: Option<Instant>,
    /// The way that the last one found.
    last: Option<Way>,
}

impl Trials {
    /// Returns trials of a group that forwards frames directly from `bytes` on until the first trial has ended. `settle`: the number of
    /// frames in flight that were meant for the other way when the way changes.
    pub fn new(bytes: u32, settle: u32) -> Trials {
        let state = State { found: bytes, rest: None, steps: Default::default(), trial: None };
        Trials { threshold: AtomicU32::new(bytes), is_trying: AtomicBool::new(false), settle, state: Mutex::new(state) }
    }

    /// Returns the length in bytes from which frames are forwarded directly just now.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Returns the length in bytes from which the direct way was found to be better.
    pub fn found(&self) -> u32 {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).found
    }

    /// Reports whether bursts have to be timed.
    #[inline(always)]
    pub(super) fn is_trying(&self) -> bool {
        self.is_trying.load(Ordering::Relaxed)
    }

    /// Begins a trial after a burst of `frames` frames with `bytes` bytes together, if they are enough and it is time.
    #[cold]
    pub(super) fn begin(&self, frames: u32, bytes: u64, now: Instant) {
        if frames < ENOUGH && bytes < ENOUGH_BYTES {
            return;
        }
        let Some(mut state) = self.state() else { return };
        let step = step_of(frames, bytes);
        let rests = [state.rest, state.steps[step].rest].into_iter().flatten().any(|until| now < until);
        if state.trial.is_none() && !rests {
            state.trial = Some(Trial::new(now, step, state.found, self.settle));
            self.tell(&state);
        }
    }

    /// Counts a burst during a trial. Returns false if it can't just now.
    #[cold]
    #[must_use]
    pub(super) fn add(&self, burst: Burst) -> bool {
        let Some(mut state) = self.state() else { return false };
        let Some(trial) = &mut state.trial else { return true };
        if let Some(end) = trial.add(burst) {
            let (step, took) = (trial.step(), burst.ended.saturating_duration_since(trial.began()));
            let rest = match end {
                End::Nothing => NOTHING_FOUND,
                End::Better(way, wasted) => {
                    state.found = trial.threshold(way);
                    let is_confirmed = state.steps[step].last.replace(way) == Some(way);
                    if is_confirmed { wasted.saturating_mul(WASTED) } else { Duration::ZERO }
                }
            };
            let until = |rest: Duration| Some(burst.ended + rest.min(LONGEST_REST));
            state.rest = until(took.saturating_mul(TIMED));
            state.steps[step].rest = until(rest);
            state.trial = None;
        }
        self.tell(&state);
        true
    }

    /// Tells the queues the threshold that holds from now on.
    fn tell(&self, State { found, trial, .. }: &State) {
        let threshold = trial.as_ref().map_or(*found, Trial::now);
        if self.now() != threshold {
            self.threshold.store(threshold, Ordering::Relaxed);
        }
        if self.is_trying() != trial.is_some() {
            self.is_trying.store(trial.is_some(), Ordering::Relaxed);
        }
    }

    /// Returns the state, unless another thread has it.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::MAX_FRAME;

    const UNTRIED: u32 = 256;

    /// Nanoseconds that a frame takes the switch, and the functions.
    #[derive(Clone, Copy, Debug)]
    struct Costs(u64, u64);

    /// Returns a burst of 32 frames.
    fn burst(began: Instant, work: Duration, bytes: u64, direct: u32) -> Burst {
        Burst { frames: 32, bytes, direct, began, ended: began + work, work }
    }

    /// Queues of a group, and their time.
    struct Queues {
        trials: Trials,
        now: Instant,
    }

    impl Queues {
        fn new() -> Queues {
            Queues { trials: Trials::new(UNTRIED, SETTLE), now: Instant::now() }
        }

        /// Runs bursts of `len` bytes a frame, which cost as much as `direct` or `copy` say, until two trials have ended; returns the
        /// threshold found, and the share of time that was lost in the way that is not `better`.
        fn run(&mut self, len: u64, direct: Costs, copy: Costs, better: Way) -> (u32, f64) {
            let (began, mut bursts, mut wasted, mut trials) = (self.now, 0, Duration::ZERO, 0);
            let time = |Costs(switch, functions): Costs| Duration::from_nanos(32 * switch.max(functions));
            while trials < 2 {
                bursts += 1;
                let way = if len >= u64::from(self.trials.now()) { Way::Direct } else { Way::Copy };
                let costs = if way == Way::Direct { direct } else { copy };
                if way != better {
                    wasted += time(costs).saturating_sub(time(if way == Way::Direct { copy } else { direct }));
                }
                // Now and then, another process has the processor.
                let lost = Duration::from_millis(if bursts % 1500 == 0 { 1 } else { 0 });
                let took = Duration::from_nanos(32 * costs.0) + lost;
                if self.trials.is_trying() {
                    let direct = if way == Way::Direct { 32 } else { 0 };
                    assert!(self.trials.add(burst(self.now, took, 32 * len, direct)));
                    trials += u32::from(!self.trials.is_trying());
                } else if bursts % 128 == 0 {
                    self.trials.begin(32, 32 * len, self.now);
                }
                self.now += time(costs) + lost;
            }
            (self.trials.found(), wasted.as_secs_f64() / self.now.duration_since(began).as_secs_f64())
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many bursts")]
    fn the_better_way_is_found_and_found_again_when_it_changes() {
        use Way::{Copy, Direct};
        let mut queues = Queues::new();
        for (len, direct, copy, better, found) in [
            // The switch is the limit.
            (60, Costs(20, 10), Costs(30, 10), Direct, 0),
            (60, Costs(30, 10), Costs(20, 10), Copy, 128),
            // The functions are the limit, so that their time counts.
            (60, Costs(20, 100), Costs(30, 80), Copy, 128),
            (60, Costs(30, 80), Costs(20, 100), Direct, 0),
            // The functions are the limit, and take as long either way.
            (60, Costs(30, 100), Costs(20, 100), Copy, 128),
            (60, Costs(20, 100), Costs(30, 100), Direct, 0),
            (300, Costs(31, 10), Costs(30, 10), Copy, 512),
            (600, Costs(31, 10), Costs(30, 10), Copy, 1024),
            (9000, Costs(100, 10), Costs(10, 10), Copy, MAX_FRAME + 1),
            (1518, Costs(10, 10), Costs(100, 10), Direct, 1024),
        ] {
            let (threshold, _) = queues.run(len, direct, copy, better);
            assert_eq!(threshold, found, "{len} bytes, {direct:?} against {copy:?}");
            let (threshold, wasted) = queues.run(len, direct, copy, better);
            assert_eq!(threshold, found, "again: {len} bytes, {direct:?} against {copy:?}");
            assert!(wasted < 0.02, "trials waste {wasted} of the time");
        }
    }

    #[test]
    fn a_trial_ends_when_its_frames_do() {
        let Queues { trials, now } = Queues::new();
        trials.begin(1, 60, now);
        assert!(!trials.is_trying(), "bursts of few frames begin none");
        trials.begin(32, 32 * 60, now);
        assert!(trials.is_trying());
        // The next burst comes an hour later.
        let now = now + Duration::from_secs(3600);
        assert!(trials.add(burst(now, Duration::ZERO, 32 * 60, 0)));
        assert!(!trials.is_trying() && trials.found() == UNTRIED && trials.now() == UNTRIED);
        trials.begin(32, 32 * 1000, now + LONGEST_REST / 2);
        assert!(!trials.is_trying(), "the group rests");
        trials.begin(32, 32 * 1000, now + LONGEST_REST);
        assert!(trials.is_trying());
    }

    /// Traffic that comes in bursts, with a pause after each, or mostly in frames of another length.
    #[test]
    #[cfg_attr(miri, ignore = "too many bursts")]
    fn trials_that_find_nothing_are_a_tenth_of_the_time() {
        for (apart, others) in [(Duration::from_millis(2), 0), (Duration::from_micros(10), 100)] {
            let Queues { trials, mut now } = Queues::new();
            let (began, mut tried) = (now, Duration::ZERO);
            while now < began + Duration::from_secs(60) {
                for other in 0..=others {
                    let bytes = if other == 0 { 32 * 60 } else { 32 * 600 };
                    if trials.is_trying() {
                        assert!(trials.add(burst(now, Duration::ZERO, bytes, 0)));
                    } else if other == 0 {
                        trials.begin(32, bytes, now);
                    }
                }
                tried += if trials.is_trying() { apart } else { Duration::ZERO };
                now += apart;
            }
            assert_eq!(trials.found(), UNTRIED);
            assert!(tried.as_secs_f64() < 60.0 / f64::from(TIMED), "trials took {tried:?}");
        }
    }

    #[test]
    fn a_burst_that_can_not_be_counted_is_counted_later() {
        let Queues { trials, now } = Queues::new();
        trials.begin(32, 32 * 60, now);
        let work = Duration::from_micros(1);
        let [first, second] = [now, now + work].map(|at| burst(at, work, 32 * 60, 32));
        let taken = trials.state.lock().unwrap();
        assert!(!trials.add(first));
        drop(taken);
        let both = second.after(first);
        assert_eq!((both.frames, both.bytes, both.direct, both.work), (64, 64 * 60, 64, 2 * work));
        assert!((both.began, both.ended) == (second.began, second.ended) && trials.add(both));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many bursts")]
    fn nothing_is_found_with_frames_that_are_always_copied() {
        let Queues { trials, mut now } = Queues::new();
        trials.begin(32, 32 * 60, now);
        while trials.is_trying() {
            // Whatever the threshold is: as if the frames came from elsewhere, and the port were faster in one way by chance.
            let took = Duration::from_nanos(if trials.now() == 0 { 500 } else { 900 });
            assert!(trials.add(burst(now, took, 32 * 60, 0)));
            now += took;
        }
        assert_eq!(trials.found(), UNTRIED);
    }
}
