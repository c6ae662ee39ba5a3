//! Sleep until a frame arrives.

use super::{Pair, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use vhost_user::Event;

/// Failure to sleep.
#[derive(Debug, thiserror::Error)]
#[error("can't wait for frames: {0}")]
pub struct WaitError(#[from] std::io::Error);

/// Sleeps until a frame arrives at one of these ports, for at most `timeout`.
pub(crate) fn wait(ports: &mut [Port], timeout: Duration) -> Result<(), WaitError> {
    wait_for(ports, None, timeout)
}

/// Sleeps until a frame arrives or `watched` is readable, for at most `timeout`.
pub(crate) fn wait_beside(ports: &mut [Port], watched: BorrowedFd<'_>, timeout: Duration) -> Result<(), WaitError> {
    wait_for(ports, Some(watched), timeout)
}

fn wait_for(ports: &mut [Port], watched: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<(), WaitError> {
    let mut any = false;
    for port in &mut *ports {
        port.reclaim();
        port.pairs.iter_mut().for_each(|pair| any |= pair.arm());
    }
    let outcome = if any {
        Ok(())
    } else {
        let calls: Vec<_> = ports.iter().flat_map(|port| &port.pairs).map(|pair| pair.call()).collect();
        sleep(&calls, watched, timeout)
    };
    for port in ports {
        port.pairs.iter_mut().for_each(Pair::disarm);
    }
    outcome
}

fn sleep(calls: &[&Event], watched: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<(), WaitError> {
    let mut fds: Vec<PollFd<'_>> = calls.iter().map(|call| PollFd::new(*call, PollFlags::IN)).collect();
    fds.extend(watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(WaitError(error.into())),
    }
    for (fd, call) in fds.iter().zip(calls) {
        if fd.revents().contains(PollFlags::IN) {
            call.clear();
        }
    }
    Ok(())
}
