//! Waiting for descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::net::{RecvFlags, recv};
use std::time::Duration;

/// Waits until one of `fds` is readable or hung up, at most for `timeout`; what holds of each is in the flags.
pub(crate) fn readable<const N: usize>(fds: [&dyn AsFd; N], timeout: Option<Duration>) -> [PollFlags; N] {
    let timeout =
        timeout.map(|t| Timespec { tv_sec: t.as_secs().min(i64::MAX as u64) as i64, tv_nsec: t.subsec_nanos().into() });
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN | PollFlags::RDHUP));
    // A signal ends the wait early, as does a timeout: callers look at what they waited for, and wait again.
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return [PollFlags::empty(); N];
    }
    polled.map(|p| p.revents())
}

/// The other end of a connection is gone, and there is nothing left to read.
pub(crate) fn is_over(fd: impl AsFd) -> bool {
    matches!(recv(fd, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((_, 0)))
}

/// The other end of a connection is gone. What it sent before may still be there to be read.
pub(crate) fn hung_up(fd: &dyn AsFd) -> bool {
    let [flags] = readable([fd], Some(Duration::ZERO));
    flags.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}
