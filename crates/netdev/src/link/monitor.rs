//! Changes of interfaces, as the kernel tells of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::RecvFlags;

use super::Link;
use super::socket::Socket;
use crate::{Error, Result};

/// Something has happened to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It came, or changed; this is how it is now.
    Changed(Link),
    /// It went; this is how it was.
    Gone(Link),
    /// Something that was not heard, because there was too much at once: all that is known may be old.
    Missed,
}

impl Event {
    /// Whether this may be about an interface of this name or index.
    pub fn concerns(&self, name: &str, index: Option<u32>) -> bool {
        match self {
            Event::Changed(link) | Event::Gone(link) => link.name == name || Some(link.index) == index,
            Event::Missed => true,
        }
    }
}

/// Hears of every change of the interfaces of a network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct Monitor(Socket);

impl Monitor {
    /// Begins to listen: what happens from now on is told.
    pub fn open() -> Result<Self> {
        Socket::open(libc::RTMGRP_LINK.cast_unsigned())
            .map(Self)
            .map_err(Error::netlink("listen to changes of interfaces"))
    }

    /// What has happened since this was asked last; does not wait.
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
                    // The socket had no room for all of them, or one is of a kind that is not understood.
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
