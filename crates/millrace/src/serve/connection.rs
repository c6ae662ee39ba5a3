//! A client's connection, on which nothing waits longer than until a deadline.

use super::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// A connected stream socket, TCP or unix.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    stop: Stop,
}

impl Connection {
    /// Takes a non-blocking socket; waiting on it ends when `stop` is set.
    pub fn new(fd: OwnedFd, stop: Stop) -> Self {
        Self { fd, stop }
    }

    /// Reads what is there, waiting for the first byte at most until `deadline` (`TimedOut`); 0 at the end.
    pub fn read(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            match read(&self.fd, &mut *buffer) {
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Writes all of `bytes`, until `deadline` (`TimedOut`).
    pub fn write_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match write(&self.fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, what: PollFlags, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&self.stop, PollFlags::IN), PollFd::from_borrowed_fd(self.fd.as_fd(), what)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if !fds[0].revents().is_empty() => Err(io::Error::other("the switch is stopping")),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
