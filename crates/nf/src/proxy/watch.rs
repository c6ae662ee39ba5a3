//! The local sockets that may have become readable or writable.

use rustix::event::epoll;
pub(super) use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most events of one look.
const EVENTS: usize = 64;

/// Edge-triggered events of many sockets. A closed socket is not watched any more.
pub(super) struct Watch {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Watch {
    pub(super) fn new() -> io::Result<Watch> {
        Ok(Watch { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a socket under this number.
    pub(super) fn add(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number), flags)?)
    }

    /// Watches a listener under this number, as long as connections wait there.
    pub(super) fn add_listener(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number), EventFlags::IN)?)
    }

    /// Calls `each` with the number and the state of each socket with an event. Never waits.
    pub(super) fn look(&mut self, mut each: impl FnMut(u64, EventFlags)) -> usize {
        self.events.clear();
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("the arguments of epoll_wait are right: {error}"),
        }
        for event in &self.events {
            // The kernel packs events, so they are copied before use.
            let (data, flags) = (event.data, event.flags);
            each(data.u64(), flags);
        }
        self.events.len()
    }

    /// Returns a descriptor that is readable when there are events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
