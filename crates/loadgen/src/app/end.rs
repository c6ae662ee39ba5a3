//! One end of a pair: an endpoint, and its role.

use super::receiving::Receiving;
use super::sending::{Sending, announce};
use super::stamp::Phase;
use super::{AppOptions, FlowReport, Role};
use crate::endpoint::{Addresses, Endpoint, EndpointError};

/// Checks without an arrival after which packets in flight are given up.
const PATIENCE: u32 = 2;

/// An end.
pub struct End<E> {
    endpoint: E,
    pub sending: Option<Sending>,
    pub receiving: Option<Receiving>,
    /// Whether it returns packets, as a server does.
    returns: bool,
    returned: u64,
    /// Whether it tells switches where it is, as nothing that it sends would do that in time.
    announces: bool,
    /// Packets that had arrived at the last check, and the number of checks since they changed.
    quiet: (u64, u32),
}

/// Returns the tasks of the endpoints of a role, in their order: all of them belong to one pair, or each to a pair of its own.
fn tasks(role: Role) -> &'static [Role] {
    match role {
        Role::SenderReceiver => &[Role::Sender, Role::Receiver],
        Role::ClientServer => &[Role::Client, Role::Server],
        Role::Sender => &[Role::Sender],
        Role::Receiver => &[Role::Receiver],
        Role::Client => &[Role::Client],
        Role::Server => &[Role::Server],
    }
}

/// Returns the number of ports of a pair that are in one process.
pub fn ports_of_a_pair(role: Role) -> usize {
    tasks(role).len()
}

/// Returns the task and the addresses of the port of this index.
pub fn place(options: &AppOptions, index: usize) -> (Role, Addresses) {
    let tasks = tasks(options.role);
    // If the peers are elsewhere, they have every other number.
    let step = 2 / tasks.len();
    (tasks[index % tasks.len()], Addresses::of(options.number + (index * step) as u8))
}

impl<E: Endpoint> End<E> {
    /// Creates an end with this task; `hz` is the frequency of the cycle counter.
    pub fn new(endpoint: E, options: &AppOptions, task: Role, addresses: Addresses, hz: f64) -> End<E> {
        // A client itself knows the packets in flight; a sender only together with its receiver.
        let closed = options.window > 0 && (task == Role::Client || options.role == Role::SenderReceiver);
        let window = if closed { options.window } else { u64::MAX };
        let sending = || Sending::new(options, addresses.own, window, hz);
        let receiving = |flow| Receiving::new(options, flow);
        let (sending, receiving) = match task {
            Role::Sender => (Some(sending()), None),
            Role::Client => (Some(sending()), Some(receiving(addresses.own))),
            Role::Receiver => (None, Some(receiving(addresses.peer))),
            _ => (None, None),
        };
        let (returns, announces) = (task == Role::Server, matches!(task, Role::Receiver | Role::Server));
        End { endpoint, sending, receiving, returns, returned: 0, announces, quiet: (0, 0) }
    }

    /// Takes packets in, or returns them; reports how many.
    #[inline(always)]
    pub fn take_in(&mut self) -> Result<usize, EndpointError> {
        if let Some(receiving) = &mut self.receiving {
            receiving.turn(&mut self.endpoint)
        } else if self.returns {
            let reflected = self.endpoint.reflect()?;
            self.returned += reflected.received;
            Ok(reflected.received as usize)
        } else {
            Ok(0)
        }
    }

    /// Sends due packets; all packets before number `arrived` have arrived or are given up.
    #[inline(always)]
    pub fn send(&mut self, now: u64, phase: Phase, arrived: u64) -> Result<usize, EndpointError> {
        match &mut self.sending {
            Some(sending) => sending.turn(&mut self.endpoint, now, phase, arrived),
            None => Ok(0),
        }
    }

    /// Sends a packet to find out whether one comes through.
    pub fn probe(&mut self) -> Result<(), EndpointError> {
        match &mut self.sending {
            Some(sending) => sending.probe(&mut self.endpoint).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the number of packets of its flow that have arrived here, in all phases.
    pub fn heard(&self) -> u64 {
        self.returned + self.receiving.as_ref().map_or(0, Receiving::all)
    }

    /// Returns the number of packets that count, of those that have arrived here: measured ones, and for a server all.
    #[inline(always)]
    pub fn counted(&self) -> u64 {
        self.returned + self.receiving.as_ref().map_or(0, |receiving| receiving.received().packets)
    }

    /// Does periodic work, some times in a second: checks that the port still exists, and announces itself until it
    /// hears of its peer.
    pub fn check(&mut self) -> Result<(), EndpointError> {
        self.endpoint.check()?;
        if self.announces && self.heard() == 0 { announce(&mut self.endpoint) } else { Ok(()) }
    }

    /// Gives up the packets before number `sent` if none has arrived for a while; called as often as [`End::check`].
    pub fn lose_patience(&mut self, sent: u64) {
        let heard = self.heard();
        let Some(receiving) = &mut self.receiving else { return };
        let (before, checks) = self.quiet;
        let checks = if heard == before { checks + 1 } else { 0 };
        self.quiet = (heard, checks);
        if checks >= PATIENCE {
            receiving.give_up(sent);
        }
    }

    /// Adds its figures of the flow to the reports.
    pub fn report(&mut self, seconds: f64, hz: f64, flows: &mut Vec<FlowReport>) {
        if let Some(sending) = &mut self.sending {
            sending.sent().seconds = seconds;
            flow_of(sending.flow(), flows).sent = Some(*sending.sent());
        }
        if let Some(receiving) = &mut self.receiving {
            let flow = flow_of(receiving.flow(), flows);
            flow.received = Some(receiving.received());
            flow.latency = receiving.latency(hz);
        }
    }
}

/// Returns the report of this flow, and adds it if there is none.
fn flow_of(flow: u8, flows: &mut Vec<FlowReport>) -> &mut FlowReport {
    let at = flows.iter().position(|report| report.flow == flow).unwrap_or_else(|| {
        flows.push(FlowReport { flow, ..FlowReport::default() });
        flows.len() - 1
    });
    &mut flows[at]
}
