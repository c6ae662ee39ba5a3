//! Admission of requests from the network.

use super::counters::Refusal;
use super::options::{Endpoint, Limits};
use super::sockets::Sockets;
use super::stack::Request;
use smoltcp::iface::SocketHandle;
use smoltcp::wire::IpAddress;
use std::cmp::Reverse;
use std::collections::HashMap;

/// A connection from the network whose handshake is not over.
pub(super) struct Handshake {
    pub(super) handle: SocketHandle,
    pub(super) from: IpAddress,
    pub(super) to: Endpoint,
}

/// The outcome of a request.
pub(super) enum Admission {
    /// The stack knows its connection.
    Known,
    /// There is a socket for it. The handshake at this index gives way to it.
    Take(Handshake, Option<usize>),
    /// The stack resets it.
    Refuse(Refusal),
    /// It is dropped, and the peer repeats it.
    Drop,
}

/// Connections whose handshakes are over.
pub(super) struct Established {
    pub(super) all: usize,
    /// Those that the peer of the request has opened.
    pub(super) of_peer: usize,
}

/// The services, and how many may come.
pub(super) struct Door {
    pub(super) services: HashMap<u16, Endpoint>,
    pub(super) limits: Limits,
}

impl Door {
    /// Decides about a request, given the handshakes, the oldest first, and the other connections. A socket listens only
    /// while its request is processed, so that no other connection takes it.
    pub(super) fn admit(
        &self,
        request: Request,
        handshakes: &[Handshake],
        established: Established,
        sockets: &mut Sockets,
    ) -> Admission {
        let Some(to) = self.services.get(&request.port) else { return Admission::Refuse(Refusal::NoService) };
        // The peer uses its port again, though we still remember the last connection (RFC 9293 §3.6.1, TIME-WAIT).
        sockets.forget(request);
        if sockets.stack.has(request) {
            return Admission::Known;
        }
        let from = request.from.addr;
        let peers = handshakes.iter().map(|handshake| handshake.from);
        let victim = if handshakes.len() < self.limits.backlog { None } else { victim(peers, from) };
        if victim.is_some_and(|index| handshakes[index].from == from) {
            return Admission::Drop;
        }
        let unfinished = handshakes.iter().filter(|handshake| handshake.from == from).count();
        if unfinished + established.of_peer >= self.limits.per_source {
            return Admission::Refuse(Refusal::TooManyOfSource);
        }
        let others = handshakes.len() + established.all - usize::from(victim.is_some());
        if !sockets.make_room(others, self.limits.connections) {
            return Admission::Refuse(Refusal::TooMany);
        }
        Admission::Take(Handshake { handle: sockets.stack.listen(request.port), from, to: to.clone() }, victim)
    }
}

/// Returns which handshake gives way to a new one `from` a peer, of those of these peers, the oldest first: the oldest of the
/// peer that has most of them. So a peer that sends many requests locks no other peer out, and the handshake of one that
/// answers is over before its turn.
fn victim(peers: impl Iterator<Item = IpAddress> + Clone, from: IpAddress) -> Option<usize> {
    let mut counts = HashMap::from([(from, 1)]);
    peers.clone().for_each(|peer| *counts.entry(peer).or_insert(0) += 1);
    peers.enumerate().max_by_key(|(age, peer)| (counts[peer], Reverse(*age))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_busiest_peer_gives_way() {
        let victim = |peers: &[u8], from: u8| {
            let peer = |number: u8| IpAddress::v4(10, 0, 0, number);
            victim(peers.iter().map(|&number| peer(number)), peer(from))
        };
        assert_eq!(victim(&[1, 2, 2, 3], 4), Some(1));
        assert_eq!(victim(&[1, 2, 3, 4], 5), Some(0), "all are alike");
        assert_eq!(victim(&[1, 2, 3, 4], 3), Some(2), "it has most");
        assert_eq!(victim(&[1, 2, 2, 3, 3], 3), Some(3));
        assert_eq!(victim(&[], 1), None);
    }
}
