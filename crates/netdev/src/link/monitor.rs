//! Notifications from the kernel about changes of interfaces.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::RecvFlags;

use super::interface::Link;
use super::socket::Socket;
use crate::error::{Error, Result};

/// An event of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was created or changed; its state now.
    Changed(Link),
    /// It was removed; its last state.
    Gone(Link),
    /// Events were lost because there were too many at once: all known state may be stale.
    Missed,
}

impl Event {
    /// Reports whether this may concern an interface of this name or index.
    pub fn concerns(&self, name: &str, index: Option<u32>) -> bool {
        match self {
            Event::Changed(link) | Event::Gone(link) => link.name == name || Some(link.index) == index,
            Event::Missed => true,
        }
    }
}

/// Receiver of all changes of interfaces in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Monitor(Socket);

impl Monitor {
    /// Starts listening: later changes are reported.
    pub fn open() -> Result<Self> {
        Socket::open(libc::RTMGRP_LINK.cast_unsigned())
            .map(Self)
            .map_err(Error::netlink("listen to changes of interfaces"))
    }

    /// Returns the events since the last call; does not wait.
    pub fn events(&self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            match self.0.receive(RecvFlags::DONTWAIT) {
                Ok(messages) => events.extend(messages.into_iter().filter_map(|message| match message.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                        Some(Event::Changed(link.into()))
                    }
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => Some(Event::Gone(link.into())),
                    _ => None,
                })),
                Err(error) => match (error.raw_os_error(), error.kind()) {
                    (Some(libc::EAGAIN), _) => return Ok(events),
                    (Some(libc::EINTR), _) => {}
                    // The socket buffer overflowed, or a message could not be parsed.
                    (Some(libc::ENOBUFS), _) | (None, io::ErrorKind::InvalidData) => events.push(Event::Missed),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Readable when there are events.
impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
