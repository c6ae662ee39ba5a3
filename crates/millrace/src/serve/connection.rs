//! A client's connection, with a deadline on every wait.

use super::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// A connected stream socket, TCP or unix.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    stop: Stop,
}

impl Connection {
    /// Takes a non-blocking socket; a wait on it ends when `stop` is set.
    pub fn new(fd: OwnedFd, stop: Stop) -> Self {
        // Every write is a whole message, so don't delay it. Fails harmlessly on a unix socket.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
        Self { fd, stop }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.fd
    }

    /// Waits until the socket is writable, or until `deadline` (`TimedOut`).
    pub(super) fn wait_writable(&self, deadline: Instant) -> io::Result<()> {
        self.wait(PollFlags::OUT, deadline, None).map(drop)
    }

    /// Reads available bytes, waiting for the first one until `deadline` (`TimedOut`); returns 0 at the end of the stream.
    pub fn read(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            match read(&self.fd, &mut *buffer) {
                Err(Errno::AGAIN) => _ = self.wait(PollFlags::IN, deadline, None)?,
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Does the same, but returns `None` if `woken` becomes readable while waiting.
    pub fn read_unless(
        &self,
        buffer: &mut [u8],
        deadline: Instant,
        woken: BorrowedFd<'_>,
    ) -> io::Result<Option<usize>> {
        loop {
            match read(&self.fd, &mut *buffer) {
                Err(Errno::AGAIN) if self.wait(PollFlags::IN, deadline, Some(woken))? => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(Some(other?)),
            }
        }
    }

    /// Writes all of `bytes`, until `deadline` (`TimedOut`).
    pub fn write_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match write(&self.fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => _ = self.wait(PollFlags::OUT, deadline, None)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the socket or for `woken`; reports whether `woken` is readable.
    fn wait(&self, what: PollFlags, deadline: Instant, woken: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let fds = [(self.stop.as_fd(), PollFlags::IN), (self.fd.as_fd(), what)];
        let watched = fds.into_iter().chain(woken.map(|woken| (woken, PollFlags::IN)));
        let mut fds: Vec<_> = watched.map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if !fds[0].revents().is_empty() => Err(io::Error::other("the switch is stopping")),
            Ok(_) => Ok(fds.get(2).is_some_and(|woken| !woken.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
