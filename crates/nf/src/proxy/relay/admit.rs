//! Which requests of the network get a connection.

use super::{Handshake, Relay};
use crate::proxy::counters::Refusal;
use crate::proxy::stack::Request;
use smoltcp::socket::tcp::Socket;
use smoltcp::wire::IpEndpoint;

/// What becomes of a request.
pub(super) enum Admission {
    /// The stack decides: it knows the connection, or resets it.
    Pass,
    /// There is a socket for it.
    Take(Handshake),
    /// It is dropped, and the peer repeats it.
    Drop,
}

impl Relay {
    /// Decides about a request. A socket listens only while its request is processed, so that nobody else's takes it.
    pub(super) fn admit(&mut self, request: Request) -> Admission {
        let Some(to) = self.services.get(&request.port).cloned() else {
            self.counters.refuse(Refusal::NoService);
            return Admission::Pass;
        };
        // The peer uses its port again, though we still remember the last connection (RFC 9293 §3.6.1, TIME-WAIT).
        self.departing.forget(&mut self.stack, &mut self.ephemeral, request);
        if self.stack.sockets.iter().any(|(_, socket)| is_of(socket, request)) {
            return Admission::Pass;
        }
        if self.handshakes.len() >= self.limits.backlog {
            self.counters.refuse(Refusal::BacklogFull);
            return Admission::Drop;
        }
        if !self.make_room() {
            self.counters.refuse(Refusal::TooMany);
            return Admission::Pass;
        }
        Admission::Take(Handshake { handle: self.stack.listen(request.port), to })
    }

    /// Reports whether there may be one more connection. One that is only remembered gives way.
    pub(super) fn make_room(&mut self) -> bool {
        let count = self.handshakes.len() + self.connections.len() + self.departing.len();
        count < self.limits.connections || self.departing.forget_oldest(&mut self.stack, &mut self.ephemeral)
    }
}

fn is_of(socket: &smoltcp::socket::Socket<'_>, request: Request) -> bool {
    let smoltcp::socket::Socket::Tcp(socket) = socket;
    matches(socket, request)
}

/// Reports whether a socket is that of a request.
pub(super) fn matches(socket: &Socket<'_>, request: Request) -> bool {
    let port = socket.local_endpoint().map(|IpEndpoint { port, .. }| port);
    socket.remote_endpoint() == Some(request.from) && port == Some(request.port)
}
