//! What a worker does when there is nothing to do.

use super::Plan;
use super::place::{Place, Stage};
use crate::clock::Cycles;
use crate::port::Wait;
use crate::spec::Idle;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Polling goes on for so long after the last frame before a worker rests, if nobody says otherwise. Waking up costs several
/// microseconds, so giving up earlier would lose more than it saves.
const PATIENCE: Duration = Duration::from_micros(50);

/// First and longest pause of the backoff policy.
const PAUSES: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(100));

/// How soon a worker that sleeps asks for chains that an output keeps.
const HOLD: Duration = Duration::from_millis(1);

/// Edge-triggered: a kick wakes a worker once, and its counter need not be read.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// When to rest, and for how long.
pub(super) struct Rest {
    patience: u64,
    since: u64,
    pause: Duration,
}

impl Rest {
    pub(super) fn new(idle: Idle, patience: Option<Duration>, cycles: &Cycles) -> Rest {
        let patience = if idle == Idle::Poll { u64::MAX } else { cycles.per(patience.unwrap_or(PATIENCE)) };
        Rest { patience, since: cycles.now(), pause: PAUSES.0 }
    }

    /// Frames moved.
    #[inline(always)]
    pub(super) fn worked(&mut self, now: u64) {
        self.since = now;
        self.pause = PAUSES.0;
    }

    /// Nothing has moved for long enough.
    #[inline(always)]
    pub(super) fn is_due(&self, now: u64) -> bool {
        now.wrapping_sub(self.since) > self.patience
    }

    /// Sleeps for a while, twice as long as before.
    pub(super) fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    /// The worker was woken: it polls with patience again.
    pub(super) fn woke(&mut self, now: u64) {
        self.since = now;
    }
}

/// What wakes a worker that sleeps: the control side, and the queues that it watches.
pub(super) struct Sleeper {
    epoll: OwnedFd,
}

impl Sleeper {
    pub(super) fn new(wake: &OwnedFd) -> std::io::Result<Sleeper> {
        let sleeper = Sleeper { epoll: epoll::create(CreateFlags::CLOEXEC)? };
        epoll::add(&sleeper.epoll, wake, EventData::new_u64(0), WAKES)?;
        Ok(sleeper)
    }

    /// Is woken by this descriptor, too.
    pub(super) fn watch(&self, fd: BorrowedFd<'_>) {
        if let Err(error) = epoll::add(&self.epoll, fd, EventData::new_u64(0), WAKES) {
            tracing::warn!("a queue can't wake its worker: {error}");
        }
    }

    /// Is not woken by it any more. Closing it would not do: others may have the same file open.
    pub(super) fn ignore(&self, fd: BorrowedFd<'_>) {
        // One that could not be watched is not there.
        let _ = epoll::delete(&self.epoll, fd);
    }
}

impl Plan {
    /// Sleeps until a queue or the control side has something, unless they have or `called` says so. Returns whether it
    /// did.
    pub(super) fn sleep(&self, called: impl Fn() -> bool) -> bool {
        let Some(sleeper) = &self.sleeper else { return false };
        let halves = || self.inputs.iter().filter_map(|i| i.half.as_deref());
        let mut longest = self.keeps().then_some(HOLD);
        let mut ready = called();
        for half in halves() {
            match half.arm() {
                Wait::Ready => ready = true,
                Wait::Event => {}
                Wait::Time(t) => longest = Some(longest.map_or(t, |l: Duration| l.min(t))),
            }
        }
        if !ready {
            let timeout = longest
                .map(|t| rustix::event::Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 8];
            self.counters.place.set(Place::nowhere(Stage::Asleep));
            // Interrupted or not: the queues are looked at next.
            let _ = epoll::wait(&sleeper.epoll, &mut events[..], timeout.as_ref());
            self.counters.place.set(Place::nowhere(Stage::Between));
        }
        halves().for_each(|h| h.disarm());
        !ready
    }
}
