//! The switch: its tables, its ports, and its connected controllers. The other files of this folder add its methods.

use super::connection::{Connection, Notice};
use crate::flows::{Action, Flow, ServiceChain};
use crate::tables::Tables;
use crate::wire::ofp::message;
use crate::wire::{PortConfig, PortStats, Ports, put_message};
use std::collections::{BTreeMap, VecDeque};

/// The switch's description of itself.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // Named as in the specification.
pub struct Identity {
    pub datapath_id: u64,
    pub manufacturer: String,
    pub hardware: String,
    pub software: String,
    pub serial: String,
    pub datapath: String,
}

/// A controller's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u32);

/// Reason to close the channel, after its output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The controller does not speak OpenFlow 1.3.
    #[error("the controller does not speak OpenFlow 1.3")]
    Version,
    /// A message's length field is below the length of its header.
    #[error("the controller sent a message whose length is below that of a header")]
    Framing,
    /// There is no such channel.
    #[error("the channel does not exist")]
    Unknown,
}

/// A controller's request to the data path, other than a change of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Apply these actions to this packet, as if it came in at `in_port`.
    PacketOut {
        /// A port's number, or `CONTROLLER`, `LOCAL` or `ANY` of [`crate::ofp::port`].
        in_port: u32,
        /// The actions.
        actions: Vec<Action>,
        /// The packet.
        data: Vec<u8>,
    },
    /// Forbid exactly this at a port.
    PortConfig {
        /// The port's number.
        number: u32,
        /// The restrictions.
        config: PortConfig,
    },
}

/// The reason for a PACKET_IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// The table-miss flow (all packets, priority 0) sent the packet.
    NoMatch = 0,
    /// Another flow sent the packet.
    Action = 1,
    /// A flow decrements the packet's time to live, which is over.
    InvalidTtl = 2,
}

impl PacketInReason {
    /// Returns the reason of this number.
    pub fn of(number: u8) -> Option<PacketInReason> {
        [PacketInReason::NoMatch, PacketInReason::Action, PacketInReason::InvalidTtl].get(usize::from(number)).copied()
    }
}

/// The reasons for which controllers want packets: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedPackets(pub u32);

impl WantedPackets {
    /// Reports whether a controller wants packets that are sent for this reason.
    pub fn has(self, reason: PacketInReason) -> bool {
        self.0 & 1 << reason as u32 != 0
    }
}

/// A packet for controllers.
#[derive(Clone, Copy, Debug)]
pub struct PacketIn<'a> {
    /// The reason.
    pub reason: PacketInReason,
    /// Cookie of the flow; all ones for none.
    pub cookie: u64,
    /// The flow's table.
    pub table: u8,
    /// The packet's metadata.
    pub metadata: u64,
    /// The port that it came in at.
    pub in_port: u32,
    /// The tunnel that it came from, or 0.
    pub tunnel_id: u64,
    /// The packet at the time of the action, or as much of it as the action sends.
    pub data: &'a [u8],
    /// Its whole length.
    pub total_len: usize,
}

/// The state machine. It has no sockets and no clock: the caller passes in bytes and times, and takes out bytes and
/// [`Event`]s.
///
/// A controller is answered only as fast as it reads: a request stays in the input while much output is unsent or a long
/// answer is incomplete. While [`Self::is_busy`], send output, call [`Self::receive`] without new bytes, and read none
/// from the controller: this bounds its buffers to little more than twice [`crate::BACKLOG`], besides 32 MiB of bundles.
///
/// After [`Self::receive`], first pass changes to the data path ([`Tables::version`]) and handle the events, and only
/// then send [`Self::output`]: otherwise a barrier is answered too early.
#[derive(Debug)]
pub struct Switch {
    pub(super) identity: Identity,
    pub(crate) ports: Ports,
    pub(crate) tables: Tables,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// The latest generation of a role request.
    pub(super) generation: Option<u64>,
    pub(super) events: VecDeque<Event>,
    next: u32,
}

impl Switch {
    /// Creates a switch without ports and flows, for at most `flows` flows in each table that forwards and `chains` in the
    /// aggregation table.
    pub fn new(identity: Identity, flows: usize, chains: usize) -> Switch {
        Switch {
            identity,
            ports: Ports::new(),
            tables: Tables::new(flows, chains),
            connections: BTreeMap::new(),
            generation: None,
            events: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds a controller's channel, with HELLO in its output.
    pub fn connect(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.connections.insert(id, Connection::new());
        id
    }

    /// Removes a controller's channel.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Sends an ECHO_REQUEST. Any bytes from the controller show that it is alive.
    pub fn ping(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.negotiated) {
            put_message(&mut connection.output, message::ECHO_REQUEST, 0, |_| {});
        }
    }

    /// Reports whether the HELLOs have been exchanged.
    pub fn is_ready(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.negotiated)
    }

    /// Returns the number of notices dropped because a controller doesn't read.
    pub fn lost_notices(&self, id: ConnectionId) -> u64 {
        self.connections.get(&id).map_or(0, |connection| connection.lost)
    }

    /// Returns the reasons for which any controller wants packets.
    pub fn wanted_packets(&self) -> WantedPackets {
        let wanted = self.connections.values().map(|connection| connection.reasons(Notice::PacketIn));
        WantedPackets(wanted.fold(0, |all, reasons| all | reasons))
    }

    /// Takes the next event for the data path.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the tables, to count packets in them.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Returns the next hops that controllers have set, as NFI-ID, or zero for none. They may have changed when the version of the
    /// aggregation table has.
    pub fn next_hops(&self) -> BTreeMap<ServiceChain, u16> {
        let mut flows: Vec<_> = self.tables.aggregation().flows().collect();
        flows.sort_by_key(|flow| flow.priority);
        let hop = |flow: &Flow| Some((ServiceChain::of(&flow.matches).ok()?, flow.instructions.nfi()));
        flows.into_iter().filter_map(hop).collect()
    }

    /// Sets the statistics of a port.
    pub fn set_port_stats(&mut self, number: u32, stats: PortStats) {
        if let Some(attached) = self.ports.get_mut(&number) {
            attached.stats = stats;
        }
    }
}
