//! The sources that wake a worker that sleeps.

use crate::port::RxQueue;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Edge-triggered: a kick wakes a worker once, and its counter need not be read.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::ET);

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

    /// Adds a queue that wakes the worker, if it has a descriptor for that.
    pub(super) fn watch(&self, half: &dyn RxQueue) {
        if let Some(fd) = half.wake_fd()
            && let Err(error) = epoll::add(&self.epoll, fd, EventData::new_u64(0), WAKES)
        {
            tracing::warn!("a queue can't wake its worker: {error}");
        }
    }

    /// Removes a queue. Closing its descriptor would not suffice: others may have the same file open.
    pub(super) fn ignore(&self, half: &dyn RxQueue) {
        if let Some(fd) = half.wake_fd() {
            // Fails if the descriptor could not be watched.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// Waits until one of them has work, at most for `longest`, or until a signal arrives.
    pub(super) fn wait(&self, longest: Option<Duration>) {
        let timeout = longest.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        let mut events = [const { MaybeUninit::uninit() }; 8];
        // Interrupted or not, the queues are polled next.
        let _ = epoll::wait(&self.epoll, &mut events[..], timeout.as_ref());
    }
}
