//! The TCP sockets of all connections, and of those that are over.

use super::ephemeral::Ephemeral;
use super::stack::{Request, Stack};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;
use smoltcp::time::{Duration, Instant};
use std::collections::VecDeque;

/// Time in which the reset of a connection must be sent. It waits for room, or for the address of a neighbour.
const SENT: Duration = Duration::from_secs(2);

/// A socket that has to send a reset, or is in TIME-WAIT.
struct Departing {
    handle: SocketHandle,
    /// Its ephemeral port, if the connection went into the network.
    port: Option<u16>,
    /// When it is removed, if it has to send a reset.
    until: Option<Instant>,
    resets: bool,
}

/// The sockets, with the ephemeral ports that they use.
pub(super) struct Sockets {
    pub(super) stack: Stack,
    pub(super) ephemeral: Ephemeral,
    /// The oldest first.
    departing: VecDeque<Departing>,
}

impl Sockets {
    pub(super) fn new(stack: Stack, ephemeral: Ephemeral) -> Sockets {
        Sockets { stack, ephemeral, departing: VecDeque::new() }
    }

    /// Reports whether there may be one more socket besides `others`, if `most` are allowed. One in TIME-WAIT gives way.
    pub(super) fn make_room(&mut self, others: usize, most: usize) -> bool {
        others + self.departing.len() < most || self.forget_oldest()
    }

    /// Keeps a socket until its reset is sent.
    pub(super) fn reset(&mut self, handle: SocketHandle, port: Option<u16>) {
        self.departing.push_back(Departing { handle, port, until: None, resets: true });
    }

    /// Keeps a socket as long as it is in TIME-WAIT.
    pub(super) fn rest(&mut self, handle: SocketHandle, port: Option<u16>) {
        self.departing.push_back(Departing { handle, port, until: None, resets: false });
    }

    /// Removes the sockets that are done.
    pub(super) fn tidy(&mut self, now: Instant) {
        let Sockets { stack, ephemeral, departing } = self;
        departing.retain_mut(|socket| {
            let until = *socket.until.get_or_insert(now + SENT);
            let tcp = stack.get(socket.handle);
            let is_done = match socket.resets {
                true => tcp.remote_endpoint().is_none() || now >= until,
                false => tcp.state() == State::Closed,
            };
            if is_done {
                remove(socket, stack, ephemeral);
            }
            !is_done
        });
    }

    /// Removes the socket that the connection of a request had before.
    pub(super) fn forget(&mut self, request: Request) {
        let Sockets { stack, ephemeral, departing } = self;
        departing.retain(|socket| {
            let is_it = request.is_of(stack.get(socket.handle));
            if is_it {
                remove(socket, stack, ephemeral);
            }
            !is_it
        });
    }

    /// Removes the oldest socket in TIME-WAIT; reports whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.departing.iter().position(|socket| !socket.resets);
        let socket = oldest.and_then(|index| self.departing.remove(index));
        socket.is_some_and(|socket| {
            remove(&socket, &mut self.stack, &mut self.ephemeral);
            true
        })
    }
}

fn remove(socket: &Departing, stack: &mut Stack, ephemeral: &mut Ephemeral) {
    stack.remove(socket.handle);
    if let Some(port) = socket.port {
        ephemeral.give_back(port);
    }
}
