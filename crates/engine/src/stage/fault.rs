//! Treats frames from a queue as bad networks do: drops, corrupts and delays them.

use super::ingress::{IngressStage, Next};
use crate::drops::{Drops, Reason};
use crate::port::frames::to_vec;
use crate::spec::Faults;
use packet::{Buffers, Burst, BurstStorage, Frames, MAX_BURST, MAX_FRAME};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of frames held back at once; more are dropped. The documentation of `delay` names it.
const HELD: usize = 4096;

/// Faults of a queue. Copies every frame, so that it can be changed or held; this is a tool for tests.
pub(crate) struct FaultInjector {
    faults: Faults,
    random: Cell<u64>,
    storage: RefCell<Box<BurstStorage>>,
    held: RefCell<VecDeque<(Instant, Vec<u8>)>>,
    buffers: Buffers,
    drops: Arc<Drops>,
}

impl FaultInjector {
    /// Injects these faults, and counts the frames that they drop.
    pub(crate) fn new(faults: Faults, drops: Arc<Drops>) -> FaultInjector {
        FaultInjector {
            // Any odd constant: xorshift must not start at zero.
            random: Cell::new(faults.seed ^ 0x9e37_79b9_7f4a_7c15),
            faults,
            storage: RefCell::default(),
            held: RefCell::default(),
            buffers: Buffers::new(MAX_BURST, MAX_FRAME as usize),
            drops,
        }
    }

    /// Returns the next number of a repeatable sequence (xorshift64).
    fn next_random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }

    fn happens(&self, probability: f64) -> bool {
        probability > 0.0 && ((self.next_random() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// Holds the frames that the faults leave.
    fn hold(&self, frames: Frames<'_>) {
        let due = Instant::now() + self.faults.delay;
        let mut held = self.held.borrow_mut();
        for frame in frames.as_slice() {
            let dropped = if held.len() == HELD {
                Some(Reason::DelayFull)
            } else {
                self.happens(self.faults.drop).then_some(Reason::Injected)
            };
            if let Some(reason) = dropped {
                self.drops.add(reason, 1);
                continue;
            }
            let mut bytes = to_vec(&frames, frame);
            if self.happens(self.faults.corrupt) {
                let at = self.next_random() as usize % bytes.len();
                bytes[at] ^= 1 << (self.next_random() % 8);
            }
            held.push_back((due, bytes));
        }
    }

    /// Moves as many of the held frames that are due to `burst` as it has room for.
    fn release<'q>(&'q self, burst: &mut Burst<'_, 'q>) {
        let mut held = self.held.borrow_mut();
        let now = Instant::now();
        while burst.room() > 0 && held.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, frame)) = held.pop_front() else { break };
            self.buffers.push(burst, |bytes| {
                bytes[..frame.len()].copy_from_slice(&frame);
                Some(frame.len())
            });
        }
    }
}

impl IngressStage for FaultInjector {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>) {
        self.hold(burst.frames());
        let mut storage = self.storage.borrow_mut();
        let mut released = storage.start();
        released.limit(burst.len() + burst.room());
        self.release(&mut released);
        if !released.is_empty() {
            next.pass(&mut released);
        }
        self.buffers.release();
    }

    fn due(&self) -> Option<Duration> {
        self.held.borrow().front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}

impl Drop for FaultInjector {
    /// Counts held frames as dropped: the queue went down.
    fn drop(&mut self) {
        let held = self.held.get_mut().len();
        if held > 0 {
            self.drops.add(Reason::Down, held as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::generator::Generator;
    use crate::port::{RxQueue, Wait};
    use crate::spec::Pace;
    use crate::stage::ingress::IngressStages;
    use crate::stage::stopwatch::Stopwatch;

    /// Passes a thousand frames. Returns how many came out at once, all that came out, and how many were dropped.
    fn run(faults: Faults) -> (usize, Vec<Vec<u8>>, u64) {
        let drops = Arc::new(Drops::default());
        let generator = Generator::new(64, Pace::default(), 1000, None);
        let injector = Box::new(FaultInjector::new(faults, drops.clone())) as Box<dyn IngressStage>;
        let stages: IngressStages = [injector].into_iter().collect();
        let (mut storage, watch) = (Box::<BurstStorage>::default(), Stopwatch::default());
        let mut out = Vec::new();
        let mut first = 0;
        let injected = || drops.named().get("injected").copied().unwrap_or(0);
        let began = std::time::Instant::now();
        for round in 0.. {
            assert!(began.elapsed() < Duration::from_secs(120), "frames are missing: {}", out.len());
            let mut burst = storage.start();
            if generator.receive(&mut burst) || stages.is_due() {
                stages.process(&mut burst, &watch, &mut |burst| {
                    let frames = burst.frames();
                    out.extend(frames.as_slice().iter().map(|f| to_vec(&frames, f)));
                });
            }
            if round == 0 {
                first = out.len();
            }
            generator.recycle();
            if out.len() as u64 + injected() >= 1000 {
                break;
            }
            if generator.arm().or_after(stages.due()) != Wait::Ready {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        (first, out, injected())
    }

    #[test]
    fn faults_are_repeatable_and_counted() {
        let faults = Faults { drop: 0.1, corrupt: 0.1, seed: 7, ..Faults::default() };
        let (_, out, dropped) = run(faults.clone());
        assert_eq!(out.len() as u64 + dropped, 1000);
        assert!((50..200).contains(&dropped), "{dropped}");
        assert_eq!(run(faults).1, out);
        let (_, clean, none) = run(Faults::default());
        assert_eq!((clean.len(), none), (1000, 0));
        let changed = clean.iter().filter(|f| !out.contains(f)).count();
        assert!(changed <= 1000);
    }

    #[test]
    fn frames_beyond_those_that_can_be_held_have_a_reason_of_their_own() {
        let drops = Arc::new(Drops::default());
        let faults = Faults { delay: Duration::from_secs(10), ..Faults::default() };
        let injector = FaultInjector::new(faults, drops.clone());
        let generator = Generator::new(64, Pace::default(), HELD as u64 + 100, None);
        let mut storage = Box::<BurstStorage>::default();
        loop {
            let mut burst = storage.start();
            if !generator.receive(&mut burst) {
                break;
            }
            injector.hold(burst.frames());
            generator.recycle();
        }
        assert_eq!(drops.named(), [("delay-full".to_owned(), 100)].into());
    }

    #[test]
    fn delayed_frames_come_late_and_in_order() {
        let (first, out, dropped) = run(Faults { delay: Duration::from_secs(2), ..Faults::default() });
        assert_eq!((first, out.len(), dropped), (0, 1000, 0));
        assert_eq!(out, run(Faults::default()).1);
    }
}
