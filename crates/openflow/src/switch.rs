//! The switch: its tables, its ports, and its connected controllers.

use crate::action::Action;
use crate::aggregation::ServiceChain;
use crate::connection::{Connection, Notice, first_len};
use crate::error::Error;
use crate::flow_mod::{FlowMod, Tables};
use crate::ofp::{HEADER_LEN, NO_BUFFER, flag, message};
use crate::port::{Attached, Port, PortStats, write_duration};
use crate::table::{Flow, FlowTable, Millis, Removal};
use crate::wire::{self, Message, Put};
use crate::{Field, Match};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of packets from all ports that a controller may leave unread before more are dropped. Other notices are dropped
/// beyond twice as much.
pub const BACKLOG: usize = 1 << 20;

/// Bytes of a PACKET_IN without its packet: a close upper bound.
const PACKET_IN_HEAD: usize = 64;

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
}

/// The reason for a PACKET_IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// The table-miss flow (all packets, priority 0) sent the packet.
    NoMatch = 0,
    /// Another flow sent the packet.
    Action = 1,
}

/// A packet for controllers.
#[derive(Clone, Copy, Debug)]
pub struct PacketIn<'a> {
    /// The reason.
    pub reason: PacketInReason,
    /// Cookie of the flow; all ones for none.
    pub cookie: u64,
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
/// from the controller: this bounds its buffers to little more than twice [`BACKLOG`].
///
/// After [`Self::receive`], first pass changes to the data path ([`FlowTable::version`]) and handle the events, and only
/// then send [`Self::output`]: otherwise a barrier is answered too early.
#[derive(Debug)]
pub struct Switch {
    pub(crate) identity: Identity,
    pub(crate) ports: BTreeMap<u32, Attached>,
    pub(crate) tables: Tables,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// The latest generation of a role request.
    pub(crate) generation: Option<u64>,
    pub(crate) events: VecDeque<Event>,
    next: u32,
}

impl Switch {
    /// Creates a switch without ports and flows, for at most `flows` flows in the forwarding table and `chains` in the
    /// aggregation table.
    pub fn new(identity: Identity, flows: usize, chains: usize) -> Switch {
        Switch {
            identity,
            ports: BTreeMap::new(),
            tables: Tables { forwarding: FlowTable::new(flows), aggregation: FlowTable::new(chains) },
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

    /// Takes bytes that a controller sent, at time `now`. On an error, send the rest of the output and close.
    ///
    /// If a barrier follows an event, all after the barrier stays in the input: handle the events, and call this again while
    /// [`Self::is_left`].
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Millis) -> Result<(), Closed> {
        let connection = self.connections.get_mut(&id).ok_or(Closed::Unknown)?;
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let rest = &input[done..];
            let connection = self.connections.get_mut(&id).ok_or(Closed::Unknown)?;
            if connection.is_blocked() {
                break;
            }
            let len = match first_len(rest) {
                Ok(len) => len.filter(|len| *len <= rest.len()),
                Err(()) => {
                    connection.error(0, Error::BadLen, &rest[..rest.len().min(HEADER_LEN)]);
                    return Err(Closed::Framing);
                }
            };
            let Some(request) = len.and_then(|len| Message::parse(&rest[..len])) else { break };
            done += request.bytes.len();
            if !connection.negotiated {
                connection.negotiate(&request).map_err(|_| Closed::Version)?;
            } else if let Err(error) = self.request(id, &request, now)
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.fail(&request, error);
            }
            if request.kind == message::BARRIER_REQUEST && !self.events.is_empty() {
                break;
            }
        }
        input.drain(..done);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.input = input;
        }
        Ok(())
    }

    /// Reports whether the input holds a whole message that can be handled now.
    pub fn is_left(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.is_blocked()) else {
            return false;
        };
        let input = &connection.input;
        // A wrong length must be handled, too.
        first_len(input).map_or(true, |len| len.is_some_and(|len| len <= input.len()))
    }

    /// Reports whether there is more to send to a controller or to handle without new bytes from it.
    pub fn is_busy(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_blocked) || self.is_left(id)
    }

    /// Reports whether there is output for a controller.
    pub fn has_output(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| !connection.output.is_empty() || connection.answer.is_some())
    }

    /// Returns the output for a controller, after adding the next piece of a long answer. The caller removes what it has sent
    /// from the front.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        let connection = self.connections.get_mut(&id)?;
        let has_room = connection.has_room();
        if let Some(answer) = connection.answer.as_mut().filter(|_| has_room)
            && !answer.write(&self.tables, &mut connection.output)
        {
            connection.answer = None;
        }
        Some(&mut connection.output)
    }

    /// Sends an ECHO_REQUEST. Any bytes from the controller show that it is alive.
    pub fn ping(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.negotiated) {
            wire::message(&mut connection.output, message::ECHO_REQUEST, 0, |_| {});
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

    /// Takes the next event for the data path.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the forwarding table.
    pub fn table(&self) -> &FlowTable {
        &self.tables.forwarding
    }

    /// Returns the forwarding table, to count packets in it.
    pub fn table_mut(&mut self) -> &mut FlowTable {
        &mut self.tables.forwarding
    }

    /// Returns the aggregation table's flows; its version changes when [`Self::next_hops`] may have changed.
    pub fn aggregation(&self) -> &FlowTable {
        &self.tables.aggregation
    }

    /// Returns the next hops that controllers have set, as NFI-ID, or zero for none.
    pub fn next_hops(&self) -> BTreeMap<ServiceChain, u16> {
        let mut flows: Vec<_> = self.tables.aggregation.flows().collect();
        flows.sort_by_key(|flow| flow.priority);
        let hop = |flow: &Flow| Some((ServiceChain::of(&flow.matches).ok()?, flow.instructions.nfi()));
        flows.into_iter().filter_map(hop).collect()
    }

    /// Applies a FLOW_MOD that another switch relayed ([`crate::aggregation::relayed`]).
    pub fn relayed(&mut self, message: &[u8], now: Millis) -> Result<(), Error> {
        let message = Message::parse(message).ok_or(Error::BadLen)?;
        let change = FlowMod::read(message.body())?;
        if change.table != crate::aggregation::TABLE {
            return Err(Error::FlowNotAllowed);
        }
        self.change(&change, now)
    }

    /// Removes expired flows. To be called about once a second.
    pub fn expire(&mut self, now: Millis) {
        for (id, flow, reason) in
            [(0, self.tables.forwarding.expire(now)), (crate::aggregation::TABLE, self.tables.aggregation.expire(now))]
                .into_iter()
                .flat_map(|(id, removed)| removed.into_iter().map(move |(flow, reason)| (id, flow, reason)))
        {
            self.flow_removed(id, &flow, reason, now);
        }
    }

    pub(crate) fn change(&mut self, change: &FlowMod, now: Millis) -> Result<(), Error> {
        for (id, flow, reason) in change.apply(&mut self.tables, now)? {
            self.flow_removed(id, &flow, reason, now);
        }
        Ok(())
    }

    /// Adds or changes a port.
    pub fn set_port(&mut self, port: Port, now: Millis) {
        let (reason, port) = match self.ports.get_mut(&port.number) {
            Some(before) if before.port == port => return,
            Some(before) => {
                before.port = port.clone();
                (2, port)
            }
            None => {
                let attached = Attached { port: port.clone(), stats: PortStats::default(), since: now };
                self.ports.insert(port.number, attached);
                (0, port)
            }
        };
        self.port_status(reason, &port);
    }

    /// Removes a port.
    pub fn remove_port(&mut self, number: u32) {
        if let Some(gone) = self.ports.remove(&number) {
            self.port_status(1, &gone.port);
        }
    }

    /// Sets the statistics of a port.
    pub fn set_port_stats(&mut self, number: u32, stats: PortStats) {
        if let Some(attached) = self.ports.get_mut(&number) {
            attached.stats = stats;
        }
    }

    /// Sends a packet to the controllers that want it. Packets are not buffered: they are sent whole, unless they are
    /// longer than a message.
    pub fn packet_in(&mut self, packet: &PacketIn) {
        let mut matches = Match::any().with(Field::InPort, packet.in_port.into(), u128::MAX);
        if packet.tunnel_id != 0 {
            matches = matches.with(Field::TunnelId, packet.tunnel_id.into(), u128::MAX);
        }
        let data = &packet.data[..packet.data.len().min(65_000)];
        let len = data.len() + PACKET_IN_HEAD;
        let ports = self.ports.len();
        let room = |connection: &mut Connection| connection.takes_room(packet.in_port, len, ports);
        self.notify(Notice::PacketIn, packet.reason as u8, room, message::PACKET_IN, |body| {
            body.u32(NO_BUFFER);
            body.u16(packet.total_len.min(0xffff) as u16);
            body.put(&[packet.reason as u8, 0]);
            body.u64(packet.cookie);
            matches.write(body);
            body.zeros(2);
            body.put(data);
        });
    }

    fn port_status(&mut self, reason: u8, port: &Port) {
        self.notify(
            Notice::PortStatus,
            reason,
            |connection| connection.has_room(),
            message::PORT_STATUS,
            |body| {
                body.u8(reason);
                body.zeros(7);
                port.write(body);
            },
        );
    }

    fn flow_removed(&mut self, table: u8, flow: &Flow, reason: Removal, now: Millis) {
        if flow.flags & flag::SEND_FLOW_REM == 0 {
            return;
        }
        self.notify(
            Notice::FlowRemoved,
            reason as u8,
            |connection| connection.has_room(),
            message::FLOW_REMOVED,
            |body| {
                body.u64(flow.cookie);
                body.u16(flow.priority);
                body.put(&[reason as u8, table]);
                write_duration(body, now.saturating_sub(flow.created));
                body.u16(flow.idle_timeout);
                body.u16(flow.hard_timeout);
                body.u64(flow.packets);
                body.u64(flow.bytes);
                flow.matches.write(body);
            },
        );
    }

    /// Sends a notice to all controllers that want it and have room for it.
    fn notify(
        &mut self,
        notice: Notice,
        reason: u8,
        room: impl Fn(&mut Connection) -> bool,
        kind: u8,
        body: impl Fn(&mut Vec<u8>),
    ) {
        for connection in self.connections.values_mut().filter(|connection| connection.wants(notice, reason)) {
            if room(connection) {
                wire::message(&mut connection.output, kind, 0, &body);
            } else {
                connection.lost += 1;
            }
        }
    }
}
