//! The counters of a proxy.

use std::fmt;

/// The reason why a connection was refused, or ended other than by its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// From the network, to a port without a service.
    NoService,
    /// There were as many connections as allowed.
    TooMany,
    /// From the network: the peer had as many connections as allowed.
    TooManyOfSource,
    /// From the network: too many handshakes were not over. One had to give way to another peer's, or the peer's own request was
    /// dropped, which it repeats.
    BacklogFull,
    /// The local service could not be reached.
    Unreachable,
    /// The service in the network refused.
    Refused,
    /// The peer in the network did not answer.
    Silent,
    /// The peer in the network reset the connection.
    NetworkReset,
    /// The local peer reset the connection.
    LocalReset,
    /// All ephemeral ports towards a service were in use.
    NoPort,
}

const REFUSALS: [(Refusal, &str); 10] = [
    (Refusal::NoService, "no-service"),
    (Refusal::TooMany, "too-many-connections"),
    (Refusal::TooManyOfSource, "too-many-of-source"),
    (Refusal::BacklogFull, "backlog-full"),
    (Refusal::Unreachable, "service-unreachable"),
    (Refusal::Refused, "network-refused"),
    (Refusal::Silent, "network-silent"),
    (Refusal::NetworkReset, "network-reset"),
    (Refusal::LocalReset, "local-reset"),
    (Refusal::NoPort, "no-port"),
];

/// The counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections from the network that got their local service.
    pub served: u64,
    /// Connections from local sockets that got their service in the network.
    pub reached: u64,
    /// Bytes from the network to local sockets.
    pub from_network: u64,
    /// Bytes from local sockets to the network.
    pub to_network: u64,
    /// Connections that exist now.
    pub open: usize,
    refused: [u64; REFUSALS.len()],
}

impl Counters {
    /// Returns how often this was the reason.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }

    pub(super) fn refuse(&mut self, reason: Refusal) {
        self.refused[reason as usize] += 1;
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { served, reached, from_network, to_network, open, refused } = self;
        write!(
            f,
            "connections: {served} served, {reached} reached, {open} open; bytes: {from_network} from the network, \
             {to_network} to it"
        )?;
        let counted = REFUSALS.iter().filter(|(reason, _)| refused[*reason as usize] > 0);
        counted.into_iter().try_for_each(|(reason, name)| write!(f, "\n  {name}: {}", refused[*reason as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_counter_and_zeros_are_not_shown() {
        let mut counters = Counters { served: 3, ..Counters::default() };
        for (times, (reason, _)) in REFUSALS.into_iter().enumerate() {
            (0..times).for_each(|_| counters.refuse(reason));
        }
        assert!(REFUSALS.iter().enumerate().all(|(times, (reason, _))| counters.refused(*reason) == times as u64));
        let text = counters.to_string();
        assert!(text.starts_with("connections: 3 served, 0 reached, 0 open;"), "{text}");
        assert!(text.contains("\n  no-port: 9") && !text.contains("no-service"), "{text}");
    }
}
