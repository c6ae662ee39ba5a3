//! One signal to end that any number of threads can wait for, beside whatever else they wait for.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Set once, never reset; clones share it. Pollable: readable once it is set.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Not set.
    pub fn new() -> io::Result<Self> {
        // An eventfd that is written and never read: it stays readable for every waiter, with no wake-up lost.
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Sets it.
    pub fn set(&self) {
        // The only failure is EAGAIN at 2^64 - 2 earlier calls, when it is set anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// It is set.
    pub fn is_set(&self) -> bool {
        self.sleep(Duration::ZERO)
    }

    /// Sleeps for `time`, or until it is set, and says whether it is. May wake early when a signal arrives.
    pub fn sleep(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        poll(&mut fds, Timespec::try_from(time).ok().as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
