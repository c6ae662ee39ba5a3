//! Waiting for descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::net::{RecvFlags, recv};
use std::time::Duration;

/// Waits until one of `fds` is readable or hung up, for at most `timeout`. Returns the poll flags of each.
pub(crate) fn readable<const N: usize>(fds: [&dyn AsFd; N], timeout: Option<Duration>) -> [PollFlags; N] {
    let timeout =
        timeout.map(|t| Timespec { tv_sec: t.as_secs().min(i64::MAX as u64) as i64, tv_nsec: t.subsec_nanos().into() });
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN | PollFlags::RDHUP));
    // A signal ends the wait early, like a timeout: callers check their condition and wait again.
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return [PollFlags::empty(); N];
    }
    polled.map(|p| p.revents())
}

/// Reports whether the peer has closed the connection and nothing is left to read.
pub(crate) fn is_over(fd: impl AsFd) -> bool {
    matches!(recv(fd, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((_, 0)))
}

/// Reports whether the peer has closed the connection. Data sent before may still be readable.
pub(crate) fn hung_up(fd: &dyn AsFd) -> bool {
    let [flags] = readable([fd], Some(Duration::ZERO));
    flags.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}
