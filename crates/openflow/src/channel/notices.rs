//! Notices to controllers: packets, changes of ports, and removed flows (Sections 7.4.1 to 7.4.3).

use super::connection::{Connection, Notice};
use super::switch::{PacketIn, Switch};
use crate::flows::{Match, Removed};
use crate::time::Millis;
use crate::wire::ofp::{NO_BUFFER, flag, message};
use crate::wire::{Field, Port, PortConfig, Put, put_message, write_duration};

/// Bytes of a PACKET_IN without its packet: a tight upper bound.
const PACKET_IN_HEAD: usize = 80;

/// The reason for a PORT_STATUS (Section 7.4.3).
#[derive(Clone, Copy)]
pub(super) enum PortReason {
    Add = 0,
    Delete = 1,
    Modify = 2,
}

impl Switch {
    /// Sends a packet to the controllers that want it. Packets are not buffered: they are sent whole, unless they are
    /// longer than a message. Returns false if none wants it any more, or one of them does not read.
    pub fn packet_in(&mut self, packet: &PacketIn) -> bool {
        let mut matches = Match::any().with(Field::InPort, packet.in_port.into(), u128::MAX);
        if packet.metadata != 0 {
            matches = matches.with(Field::Metadata, packet.metadata.into(), u128::MAX);
        }
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
            body.put(&[packet.reason as u8, packet.table]);
            body.u64(packet.cookie);
            matches.write(body);
            body.zeros(2);
            body.put(data);
        })
    }

    /// Tells controllers that a port has come, gone or changed.
    pub(super) fn port_status(&mut self, reason: PortReason, port: &Port, config: PortConfig) {
        self.notify(
            Notice::PortStatus,
            reason as u8,
            |connection| connection.has_room(),
            message::PORT_STATUS,
            |body| {
                body.u8(reason as u8);
                body.zeros(7);
                port.write(config, body);
            },
        );
    }

    /// Tells controllers of removed flows.
    pub(super) fn flows_removed(&mut self, removed: &[Removed], now: Millis) {
        removed.iter().for_each(|removed| self.flow_removed(removed, now));
    }

    /// Tells controllers of a removed flow, if its FLOW_MOD asked for that.
    fn flow_removed(&mut self, removed: &Removed, now: Millis) {
        let Removed { table, ref flow, reason } = *removed;
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

    /// Sends a notice to all controllers that want it and have room for it. Returns false if no controller wants it, or one has no room.
    fn notify(
        &mut self,
        notice: Notice,
        reason: u8,
        room: impl Fn(&mut Connection) -> bool,
        kind: u8,
        body: impl Fn(&mut Vec<u8>),
    ) -> bool {
        let (mut sent, mut lost) = (0, 0);
        for connection in
            self.connections.values_mut().filter(|connection| connection.reasons(notice) & 1 << reason != 0)
        {
            if room(connection) {
                put_message(&mut connection.output, kind, 0, &body);
                sent += 1;
            } else {
                connection.lost += 1;
                lost += 1;
            }
        }
        sent > 0 && lost == 0
    }
}
