//! A stop signal that any number of threads can wait for, together with other descriptors.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A flag that is set once and never reset; clones share it. Its descriptor is readable once it is set.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Creates an unset flag.
    pub fn new() -> io::Result<Self> {
        // The eventfd is written and never read: it stays readable for every waiter, with no wake-up lost.
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Sets the flag.
    pub fn set(&self) {
        // The only possible error is EAGAIN after 2^64 - 2 calls, and then it is set anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Reports whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.sleep(Duration::ZERO)
    }

    /// Sleeps for `time` or until the flag is set, and reports whether it is set. May wake early when a signal arrives.
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
