//! Eventfds shared with a peer: kick and call descriptors.
//!
//! Sharing a descriptor shares its file description and thereby its flags: after any check, the peer can clear
//! O_NONBLOCK and fill the counter, and the next write(2) blocks for as long as the peer likes. An eventfd supports no
//! flag for a single write (`pwritev2` with RWF_NOWAIT returns EOPNOTSUPP), and a poll(2) before the write is a race.
//! So this side never writes to such a descriptor; the kernel signals it instead, see [`signals`]. Reads do support
//! RWF_NOWAIT.

mod relay;
mod signals;

use crate::rate_limited_log::RateLimitedLog;
use relay::Shared;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use signals::Signals;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// An eventfd shared with a peer. No operation on it waits for the peer, nor works for it for long.
#[derive(Clone, Debug)]
pub struct Event(Arc<Shared>);

/// Error: a descriptor from the peer cannot be used as an eventfd.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error("the descriptor is not an eventfd; a kick or call has to be one")]
    NotAnEventFd,
    #[error("cannot ask the kernel to signal eventfds: {0}; if fs.aio-nr has reached fs.aio-max-nr, raise that")]
    Unsupported(#[from] io::Error),
}

impl Event {
    /// Reserves the kernel resources for signalling eventfds, for the life of the process.
    pub(crate) fn prepare() -> io::Result<()> {
        Signals::get().map(|_| ())
    }

    /// Starts the thread that sends signals which take long. Without it, signals take time of the notifying thread.
    pub(crate) fn relay() -> io::Result<()> {
        relay::start()
    }

    fn new(fd: OwnedFd, signals: &'static Signals, log: Option<Arc<RateLimitedLog>>) -> Event {
        Event(Arc::new(Shared::new(fd, signals, log)))
    }

    /// Creates an eventfd to share with a peer.
    pub fn create() -> io::Result<Event> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Event::new(fd, Signals::get()?, None))
    }

    /// Takes ownership of a kick or call descriptor, if it is an eventfd. Semaphores are eventfds too: how many
    /// notifications one read consumes concerns only the reader.
    pub(crate) fn take(fd: OwnedFd, log: Option<Arc<RateLimitedLog>>) -> Result<Event, EventError> {
        let signals = Signals::get()?;
        if signals.is_eventfd(fd.as_fd())? { Ok(Event::new(fd, signals, log)) } else { Err(EventError::NotAnEventFd) }
    }

    /// Signals the eventfd. Never blocks; an eventfd already signalled stays so until cleared. If many wait for it, another thread
    /// signals it, a little later.
    #[inline]
    pub fn notify(&self) {
        self.0.notify();
    }

    /// Resets the eventfd. Never blocks, even if it was not signalled.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // EAGAIN: it was not signalled. An offset of -1 means none, as eventfds have no position.
        while preadv2(&self.0.fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT)
            == Err(Errno::INTR)
        {}
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
