//! Idle policies: how a worker rests when no frames arrive.

use super::Plan;
use super::place::{Activity, Place};
use crate::clock::Cycles;
use crate::port::Wait;
use crate::spec::Idle;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::os::fd::{BorrowedFd, OwnedFd};
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

/// Edge-triggered: a kick wakes a worker once, and its counter need not be read.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::ET);

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

/// Wake-up sources of a sleeping worker: the control side, and the queues that it watches.
pub(super) struct Sleeper {
    epoll: OwnedFd,
}

impl Sleeper {
    pub(super) fn new(wake: &OwnedFd) -> std::io::Result<Sleeper> {
        let sleeper = Sleeper { epoll: epoll::create(CreateFlags::CLOEXEC)? };
        epoll::add(&sleeper.epoll, wake, EventData::new_u64(0), WAKES)?;
        Ok(sleeper)
    }

    /// Adds a descriptor that wakes the worker.
    pub(super) fn watch(&self, fd: BorrowedFd<'_>) {
        if let Err(error) = epoll::add(&self.epoll, fd, EventData::new_u64(0), WAKES) {
            tracing::warn!("a queue can't wake its worker: {error}");
        }
    }

    /// Removes a descriptor. Closing it would not suffice: others may have the same file open.
    pub(super) fn ignore(&self, fd: BorrowedFd<'_>) {
        // Fails if the descriptor could not be watched.
        let _ = epoll::delete(&self.epoll, fd);
    }
}

impl Plan {
    /// Sleeps until a queue or the control side has work, unless one of them has or `called` returns true. Reports
    /// whether it slept.
    pub(super) fn sleep(&self, called: impl Fn() -> bool) -> bool {
        let Some(sleeper) = &self.sleeper else { return false };
        let queues = || self.inputs.iter().filter_map(|input| input.ingress.as_ref());
        let mut longest = self.keeps().then_some(HOLD);
        let mut ready = called();
        for ingress in queues() {
            match ingress.arm() {
                Wait::Ready => ready = true,
                Wait::Event => {}
                Wait::Time(t) => longest = Some(longest.map_or(t, |l: Duration| l.min(t))),
            }
        }
        if !ready {
            let timeout = longest
                .map(|t| rustix::event::Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 8];
            self.counters.place.set(Place::nowhere(Activity::Asleep));
            // Interrupted or not, the queues are polled next.
            let _ = epoll::wait(&sleeper.epoll, &mut events[..], timeout.as_ref());
            self.counters.place.set(Place::nowhere(Activity::Between));
        }
        queues().for_each(|ingress| ingress.half.disarm());
        !ready
    }
}
