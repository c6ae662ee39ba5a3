//! TCP sockets whose connection is over.

use super::admit::matches;
use crate::proxy::ephemeral::Ephemeral;
use crate::proxy::stack::{Request, Stack};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;
use smoltcp::time::{Duration, Instant};
use std::collections::VecDeque;

/// Time in which the reset of a connection must be sent. It waits for room, or for the address of a neighbour.
const SENT: Duration = Duration::from_secs(2);

struct Socket {
    handle: SocketHandle,
    port: Option<u16>,
    /// When it is removed, if it has to send a reset.
    until: Option<Instant>,
    resets: bool,
}

/// Sockets that have to send a reset, or are in TIME-WAIT; the oldest first.
#[derive(Default)]
pub(super) struct Departing {
    sockets: VecDeque<Socket>,
}

impl Departing {
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Keeps a socket until its reset is sent.
    pub(super) fn reset(&mut self, handle: SocketHandle, port: Option<u16>) {
        self.sockets.push_back(Socket { handle, port, until: None, resets: true });
    }

    /// Keeps a socket as long as it is in TIME-WAIT.
    pub(super) fn rest(&mut self, handle: SocketHandle, port: Option<u16>) {
        self.sockets.push_back(Socket { handle, port, until: None, resets: false });
    }

    /// Removes the sockets that are done.
    pub(super) fn tidy(&mut self, stack: &mut Stack, ephemeral: &mut Ephemeral, now: Instant) {
        self.sockets.retain_mut(|socket| {
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

    /// Removes the oldest socket in TIME-WAIT; reports whether there was one.
    pub(super) fn forget_oldest(&mut self, stack: &mut Stack, ephemeral: &mut Ephemeral) -> bool {
        let oldest = self.sockets.iter().position(|socket| !socket.resets);
        let socket = oldest.and_then(|index| self.sockets.remove(index));
        socket.is_some_and(|socket| {
            remove(&socket, stack, ephemeral);
            true
        })
    }

    /// Removes the socket that the connection of a request had before.
    pub(super) fn forget(&mut self, stack: &mut Stack, ephemeral: &mut Ephemeral, request: Request) {
        self.sockets.retain(|socket| {
            let is_it = matches(stack.get(socket.handle), request);
            if is_it {
                remove(socket, stack, ephemeral);
            }
            !is_it
        });
    }
}

fn remove(socket: &Socket, stack: &mut Stack, ephemeral: &mut Ephemeral) {
    stack.remove(socket.handle);
    if let Some(port) = socket.port {
        ephemeral.give_back(port);
    }
}
