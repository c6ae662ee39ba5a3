//! The switch: its tables and ports, and the controllers that are connected to it.

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

/// Bytes of packets that a controller may leave unread before more are dropped, from all ports. Other notices are dropped
/// beyond twice as much.
pub const BACKLOG: usize = 1 << 20;

/// Bytes of a PACKET_IN without its packet: about so many, and not less.
const PACKET_IN_HEAD: usize = 64;

/// What the switch says of itself.
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

/// The channel must be closed, after what is in its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// It does not speak OpenFlow 1.3.
    #[error("the controller does not speak OpenFlow 1.3")]
    Version,
    /// A message says that it is shorter than its header.
    #[error("the controller sent a message whose length is below that of a header")]
    Framing,
    /// There is no such channel.
    #[error("the channel does not exist")]
    Unknown,
}

/// What controllers ask of the data path, beside what stands in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Do these actions to this packet, as if it came in at `in_port`.
    PacketOut {
        /// A port's number, or `CONTROLLER`, `LOCAL` or `ANY` of [`crate::ofp::port`].
        in_port: u32,
        /// What to do.
        actions: Vec<Action>,
        /// The packet.
        data: Vec<u8>,
    },
}

/// Why a packet is shown to controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// The table-miss flow (all packets, priority 0) sent it.
    NoMatch = 0,
    /// Another flow sent it.
    Action = 1,
}

/// A packet for controllers.
#[derive(Clone, Copy, Debug)]
pub struct PacketIn<'a> {
    /// Why.
    pub reason: PacketInReason,
    /// Cookie of the flow; all ones for none.
    pub cookie: u64,
    /// Where it came in.
    pub in_port: u32,
    /// The tunnel it came out of, or 0.
    pub tunnel_id: u64,
    /// The packet, as it was when the action was done, or as much of it as was asked for.
    pub data: &'a [u8],
    /// Its whole length.
    pub total_len: usize,
}

/// The state machine. It knows no sockets and no clock: bytes and times are brought to it, and bytes and [`Event`]s are
/// fetched from it.
///
/// A controller is answered as fast as it reads, and no faster: a request that comes while much output is there, or a long
/// answer is not over, is left where it is. As long as [`Self::is_busy`], send output, call [`Self::receive`] without new
/// bytes, and read none from the controller: then what is kept for it stays little more than twice [`BACKLOG`].
///
/// After [`Self::receive`], first let the data path take what has changed ([`FlowTable::version`]) and do the events, and
/// only then send [`Self::output`]: so a barrier's answer means what it says.
#[derive(Debug)]
pub struct Switch {
    pub(crate) identity: Identity,
    pub(crate) ports: BTreeMap<u32, Attached>,
    pub(crate) tables: Tables,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// The latest of the generations of roles.
    pub(crate) generation: Option<u64>,
    pub(crate) events: VecDeque<Event>,
    next: u32,
}

impl Switch {
    /// A switch without ports and flows, for `flows` flows in the table for forwarding and `chains` in that for
    /// aggregation.
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

    /// A controller is connected; HELLO is in its output.
    pub fn connect(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.connections.insert(id, Connection::new());
        id
    }

    /// A controller is gone.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Takes bytes that a controller sent, at time `now`. On an error, send the rest of its output and close.
    ///
    /// If a barrier comes behind something that is asked of the data path, what follows it is left where it is: do the
    /// events, and call this again as long as there [`Self::is_left`] something.
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

    /// A whole message of a controller has not been looked at yet, and can be now.
    pub fn is_left(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.is_blocked()) else {
            return false;
        };
        let input = &connection.input;
        // A length that is wrong is to be looked at, too.
        first_len(input).map_or(true, |len| len.is_some_and(|len| len <= input.len()))
    }

    /// There is more to send to a controller or to do for it, without anything new from it.
    pub fn is_busy(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_blocked) || self.is_left(id)
    }

    /// There is something to be sent to a controller.
    pub fn has_output(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| !connection.output.is_empty() || connection.answer.is_some())
    }

    /// What is to be sent to a controller, with the next piece of a long answer. Whoever sends it removes it from the front.
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

    /// Asks a controller for a sign of life: any bytes from it are one.
    pub fn ping(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.negotiated) {
            wire::message(&mut connection.output, message::ECHO_REQUEST, 0, |_| {});
        }
    }

    /// The HELLOs have been exchanged.
    pub fn is_ready(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.negotiated)
    }

    /// Notices that a controller has lost because it doesn't read.
    pub fn lost_notices(&self, id: ConnectionId) -> u64 {
        self.connections.get(&id).map_or(0, |connection| connection.lost)
    }

    /// The next thing that is asked of the data path.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The table that packets are forwarded by.
    pub fn table(&self) -> &FlowTable {
        &self.tables.forwarding
    }

    /// The same, to count packets in.
    pub fn table_mut(&mut self) -> &mut FlowTable {
        &mut self.tables.forwarding
    }

    /// The aggregation table's flows; its version says when [`Self::next_hops`] may have changed.
    pub fn aggregation(&self) -> &FlowTable {
        &self.tables.aggregation
    }

    /// The next hops that controllers have set, as NFI-ID, or zero for none.
    pub fn next_hops(&self) -> BTreeMap<ServiceChain, u16> {
        let mut flows: Vec<_> = self.tables.aggregation.flows().collect();
        flows.sort_by_key(|flow| flow.priority);
        let hop = |flow: &Flow| Some((ServiceChain::of(&flow.matches).ok()?, flow.instructions.nfi()));
        flows.into_iter().filter_map(hop).collect()
    }

    /// Does what a FLOW_MOD asks for that another switch relayed ([`crate::aggregation::relayed`]).
    pub fn relayed(&mut self, message: &[u8], now: Millis) -> Result<(), Error> {
        let message = Message::parse(message).ok_or(Error::BadLen)?;
        let change = FlowMod::read(message.body())?;
        if change.table != crate::aggregation::TABLE {
            return Err(Error::FlowNotAllowed);
        }
        self.change(&change, now)
    }

    /// Ends flows whose time is over. To be called about once a second.
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

    /// A port came, or has changed.
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

    /// A port is gone.
    pub fn remove_port(&mut self, number: u32) {
        if let Some(gone) = self.ports.remove(&number) {
            self.port_status(1, &gone.port);
        }
    }

    /// What a port has counted.
    pub fn set_port_stats(&mut self, number: u32, stats: PortStats) {
        if let Some(attached) = self.ports.get_mut(&number) {
            attached.stats = stats;
        }
    }

    /// Shows a packet to the controllers that want it. Packets are not buffered: they are sent whole, unless they are
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

    /// Sends a notice to all who want it and have room for it.
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
