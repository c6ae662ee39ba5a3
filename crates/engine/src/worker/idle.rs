//! Idle policies: how a worker rests when no frames arrive.

use super::plan::Plan;
use crate::clock::Cycles;
use crate::monitor::{Activity, Place};
use crate::port::Wait;
use crate::spec::Idle;
use crate::stage::ingress::Ingress;
use std::time::Duration;

/// Default time after the last frame for which a worker polls before it rests. Waking up costs several microseconds, so
/// resting earlier would lose more than it saves.
const PATIENCE: Duration = Duration::from_micros(50);

/// First pause of the backoff policy.
const FIRST_PAUSE: Duration = Duration::from_micros(1);
/// Longest pause of the backoff policy: each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_micros(100);

/// Interval at which a sleeping worker asks for chains that an output keeps.
const HOLD: Duration = Duration::from_millis(1);

/// State of a worker's rests: when to take one, and for how long.
pub(super) struct Rest {
    patience: u64,
    since: u64,
    pause: Duration,
}

impl Rest {
    pub(super) fn new(idle: Idle, patience: Option<Duration>, cycles: &Cycles) -> Rest {
        let patience = if idle == Idle::Poll { u64::MAX } else { cycles.per(patience.unwrap_or(PATIENCE)) };
        Rest { patience, since: cycles.now(), pause: FIRST_PAUSE }
    }

    /// Notes that frames moved.
    #[inline(always)]
    pub(super) fn worked(&mut self, now: u64) {
        self.since = now;
        self.pause = FIRST_PAUSE;
    }

    /// Reports whether nothing has moved for long enough.
    #[inline(always)]
    pub(super) fn is_due(&self, now: u64) -> bool {
        now.wrapping_sub(self.since) > self.patience
    }

    /// Sleeps for a while, twice as long as the last time.
    pub(super) fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Notes that the worker was woken, and polls with patience again.
    pub(super) fn woke(&mut self, now: u64) {
        self.since = now;
    }
}

impl Plan {
    /// Sleeps until a queue or the control side has work, unless one of them has or `called` returns true. Reports
    /// whether it slept.
    pub(super) fn sleep(&self, called: impl Fn() -> bool) -> bool {
        let Some(sleeper) = &self.sleeper else { return false };
        let queues = || self.inputs.iter().map(|input| &input.ingress);
        let mut longest = self.keeps().then_some(HOLD);
        let mut ready = called();
        for wait in queues().map(Ingress::arm).chain(self.shared.arm()) {
            match wait {
                Wait::Ready => ready = true,
                Wait::Event => {}
                Wait::Time(t) => longest = Some(longest.map_or(t, |l: Duration| l.min(t))),
            }
        }
        if !ready {
            self.counters.place.set(Place::nowhere(Activity::Asleep));
            sleeper.wait(longest);
            self.counters.place.set(Place::nowhere(Activity::Between));
        }
        queues().for_each(|ingress| ingress.half.disarm());
        self.shared.disarm();
        !ready
    }
}
