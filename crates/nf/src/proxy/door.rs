//! Which requests of the network get a connection.

use super::counters::Refusal;
use super::options::{Endpoint, Limits};
use super::sockets::Sockets;
use super::stack::Request;
use smoltcp::iface::SocketHandle;
use std::collections::HashMap;

/// A connection from the network whose handshake is not over.
pub(super) struct Handshake {
    pub(super) handle: SocketHandle,
    pub(super) to: Endpoint,
}

/// The outcome of a request.
pub(super) enum Admission {
    /// The stack knows its connection.
    Known,
    /// There is a socket for it.
    Take(Handshake),
    /// The stack resets it.
    Refuse(Refusal),
    /// It is dropped, and the peer repeats it.
    Drop(Refusal),
}

/// The services, and how many may come.
pub(super) struct Door {
    pub(super) services: HashMap<u16, Endpoint>,
    pub(super) limits: Limits,
}

impl Door {
    /// Decides about a request. A socket listens only while its request is processed, so that nobody else's takes it.
    pub(super) fn admit(
        &self,
        request: Request,
        handshakes: usize,
        connections: usize,
        sockets: &mut Sockets,
    ) -> Admission {
        let Some(to) = self.services.get(&request.port) else { return Admission::Refuse(Refusal::NoService) };
        // The peer uses its port again, though we still remember the last connection (RFC 9293 §3.6.1, TIME-WAIT).
        sockets.forget(request);
        if sockets.stack.has(request) {
            Admission::Known
        } else if handshakes >= self.limits.backlog {
            Admission::Drop(Refusal::BacklogFull)
        } else if !sockets.make_room(handshakes + connections, self.limits.connections) {
            Admission::Refuse(Refusal::TooMany)
        } else {
            Admission::Take(Handshake { handle: sockets.stack.listen(request.port), to: to.clone() })
        }
    }
}
