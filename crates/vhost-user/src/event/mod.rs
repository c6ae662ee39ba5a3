//! Eventfds that a peer shares: what kicks a device, and what it calls its driver by.
//!
//! Sharing a descriptor shares its file description, and with it the flags: whatever we check, the peer can clear
//! O_NONBLOCK afterwards, fill the counter, and the next write(2) waits for as long as the peer likes. An eventfd knows no
//! flag for a single write (`pwritev2` with RWF_NOWAIT answers EOPNOTSUPP), and to ask poll(2) first is to ask too early.
//! So nobody ever writes to such a descriptor; the kernel signals it on our behalf, see [`signals`]. Reading does have that
//! flag.

mod signals;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use signals::Signals;
use std::io::{self, IoSliceMut};

/// An eventfd that a peer shares with us. Nothing that is done with it waits for the peer.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    signals: &'static Signals,
}

/// What a peer sent can't be used where an eventfd belongs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error("the descriptor is not an eventfd; a kick or call has to be one")]
    NotAnEventFd,
    #[error("cannot ask the kernel to signal eventfds: {0}; if fs.aio-nr has reached fs.aio-max-nr, raise that")]
    Unsupported(#[from] io::Error),
}

impl Event {
    /// Gets what it takes to ring eventfds, so that nobody can take it away later: from then on it is there for good.
    pub fn prepare() -> io::Result<()> {
        Signals::get().map(|_| ())
    }

    /// A new one, to be shared with a peer.
    pub fn create() -> io::Result<Event> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Event { fd, signals: Signals::get()? })
    }

    /// Takes a kick or call descriptor, if it is an eventfd. Semaphores are eventfds too: how many notifications a read
    /// takes concerns only who reads.
    pub(crate) fn take(fd: OwnedFd) -> Result<Event, EventError> {
        let signals = Signals::get()?;
        if signals.is_eventfd(fd.as_fd())? { Ok(Event { fd, signals }) } else { Err(EventError::NotAnEventFd) }
    }

    /// Another descriptor of the same eventfd.
    pub fn try_clone(&self) -> io::Result<Event> {
        Ok(Event { fd: self.fd.try_clone()?, signals: self.signals })
    }

    /// Rings it. Never blocks; one that was rung before and not cleared stays rung.
    #[inline]
    pub fn notify(&self) {
        self.signals.signal(self.fd.as_fd());
    }

    /// Makes it silent again. Never blocks, also if it was not rung.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // EAGAIN says that it is silent already. An offset of -1 is none: eventfds have no position.
        while preadv2(&self.fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT)
            == Err(Errno::INTR)
        {}
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
