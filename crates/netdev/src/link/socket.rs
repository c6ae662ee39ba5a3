//! A netlink socket of the family `NETLINK_ROUTE`: requests and answers.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with};

use super::interface::Link;

/// Receive buffer: one interface with everything that the kernel reports about it, except its virtual functions.
const ROOM: usize = 64 << 10;

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: Cell<u32>,
}

impl Socket {
    /// Opens a socket that joins these multicast groups, given as bits.
    pub(super) fn open(groups: u32) -> io::Result<Self> {
        // Protocol 0 is NETLINK_ROUTE.
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { fd, sequence: Cell::new(0) })
    }

    /// Requests one interface.
    pub(super) fn ask(&self, request: RouteNetlinkMessage) -> io::Result<Link> {
        match self.converse(request, 0)? {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link.into()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Requests a change.
    pub(super) fn tell(&self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.converse(request, NLM_F_ACK).map(drop)
    }

    /// Sends a request and waits for its answer, which the kernel sends at once.
    fn converse(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<NetlinkPayload<RouteNetlinkMessage>> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let mut message = Message::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(&self.fd, &bytes, SendFlags::empty())?;
        loop {
            for answer in self.receive(RecvFlags::empty())? {
                if answer.header.sequence_number != sequence {
                    continue;
                }
                return match answer.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
                    payload => Ok(payload),
                };
            }
        }
    }

    /// Returns the messages of the next datagram.
    pub(super) fn receive(&self, flags: RecvFlags) -> io::Result<Vec<Message>> {
        let mut bytes = vec![0; ROOM];
        let (length, _) = recv(&self.fd, &mut bytes[..], flags)?;
        let mut rest = &bytes[..length];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message =
                Message::deserialize(rest).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // Messages are aligned to four bytes.
            let taken = (message.header.length as usize).next_multiple_of(4).clamp(1, rest.len());
            rest = &rest[taken..];
            messages.push(message);
        }
        Ok(messages)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
