//! A wrapper that treats frames from a queue as bad networks do: it drops, corrupts and delays them.

use super::around::AroundReceive;
use super::{Receive, Wait};
use crate::drops::{Drops, Reason};
use crate::port::frames::to_vec;
use crate::spec::Faults;
use packet::{Buffers, Burst, BurstStorage, MAX_BURST, MAX_FRAME};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of frames held back at once; more are dropped.
const HELD: usize = 4096;

/// Receive half with faults. Copies every frame, so that it can be changed or held; this is a tool for tests.
pub struct FaultReceive {
    inner: Box<dyn Receive>,
    faults: Faults,
    random: Cell<u64>,
    storage: RefCell<Box<BurstStorage>>,
    held: RefCell<VecDeque<(Instant, Vec<u8>)>>,
    buffers: Buffers,
    drops: Arc<Drops>,
}

impl FaultReceive {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Receive>, faults: Faults, drops: Arc<Drops>) -> FaultReceive {
        FaultReceive {
            inner,
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

    /// Receives a burst, and holds what the faults leave of it.
    fn take(&self) {
        let mut storage = self.storage.borrow_mut();
        let mut burst = storage.start();
        if !self.inner.receive(&mut burst) {
            return;
        }
        let due = Instant::now() + self.faults.delay;
        let frames = burst.frames();
        let mut held = self.held.borrow_mut();
        for frame in frames.as_slice() {
            if held.len() == HELD || self.happens(self.faults.drop) {
                self.drops.add(Reason::Injected, 1);
                continue;
            }
            let mut bytes = to_vec(&frames, frame);
            if self.happens(self.faults.corrupt) {
                let at = self.next_random() as usize % bytes.len();
                bytes[at] ^= 1 << (self.next_random() % 8);
            }
            held.push_back((due, bytes));
        }
        self.inner.recycle();
    }
}

impl AroundReceive for FaultReceive {
    fn inner(&self) -> &dyn Receive {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Receive {
        &mut *self.inner
    }

    fn receive_through<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        self.take();
        let mut held = self.held.borrow_mut();
        let now = Instant::now();
        while burst.room() > 0 && held.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, frame)) = held.pop_front() else { break };
            self.buffers.push(burst, |bytes| {
                bytes[..frame.len()].copy_from_slice(&frame);
                Some(frame.len())
            });
        }
        !burst.is_empty()
    }

    fn recycle_through(&self) {
        self.buffers.release();
    }

    fn arm_through(&self) -> Wait {
        let first = self.held.borrow().front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        match (self.inner.arm(), first) {
            (Wait::Event, Some(time)) => Wait::Time(time),
            (Wait::Time(a), Some(b)) => Wait::Time(a.min(b)),
            (wait, _) => wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::generator::Generator;
    use crate::spec::Pace;
    use std::time::Duration;

    fn run(faults: Faults) -> (usize, Vec<Vec<u8>>, u64) {
        let drops = Arc::new(Drops::default());
        let port = FaultReceive::new(Box::new(Generator::new(64, Pace::default(), 1000, None)), faults, drops.clone());
        let mut storage = Box::<BurstStorage>::default();
        let mut out = Vec::new();
        let mut first = 0;
        let injected = || drops.named().get("injected").copied().unwrap_or(0);
        let began = std::time::Instant::now();
        for round in 0.. {
            assert!(began.elapsed() < Duration::from_secs(120), "frames are missing: {}", out.len());
            let mut burst = storage.start();
            port.receive(&mut burst);
            let frames = burst.frames();
            out.extend(frames.as_slice().iter().map(|f| to_vec(&frames, f)));
            if round == 0 {
                first = out.len();
            }
            port.recycle();
            if out.len() as u64 + injected() >= 1000 {
                break;
            }
            if port.arm() != Wait::Ready {
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
    fn delayed_frames_come_late_and_in_order() {
        let (first, out, dropped) = run(Faults { delay: Duration::from_secs(2), ..Faults::default() });
        assert_eq!((first, out.len(), dropped), (0, 1000, 0));
        assert_eq!(out, run(Faults::default()).1);
    }
}
