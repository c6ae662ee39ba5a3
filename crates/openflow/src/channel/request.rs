//! Requests of controllers, message by message (Section 7.3).

use super::changes::PortMod;
use super::connection::Role;
use super::switch::{ConnectionId, Event, Switch};
use crate::flows::{Known, Match, Scope, aggregation, read_list};
use crate::time::Millis;
use crate::wire::ofp::{NO_BUFFER, TABLE_ALL, VERSION, message, port};
use crate::wire::{Error, Message, Put, Reader, put_message};
use packet::header_len;

/// Capabilities: statistics of flows, tables, ports and groups.
const CAPABILITIES: u32 = 0b1111;

/// Number of tables.
pub(super) const TABLES: u8 = aggregation::TABLE + 1;

/// Reads a body that `read` must consume completely.
fn exactly<T>(mut body: Reader, read: impl FnOnce(&mut Reader) -> Option<T>) -> Result<T, Error> {
    read(&mut body).filter(|_| body.is_empty()).ok_or(Error::BadLen)
}

impl Switch {
    /// Handles a request; the caller sends the error.
    pub(super) fn handle(&mut self, id: ConnectionId, request: &Message, now: Millis) -> Result<(), Error> {
        if request.version != VERSION {
            return Err(Error::BadVersion);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let (body, xid) = (request.body(), request.xid);
        let changes = [
            message::PACKET_OUT,
            message::FLOW_MOD,
            message::GROUP_MOD,
            message::METER_MOD,
            message::PORT_MOD,
            message::TABLE_MOD,
        ];
        if connection.role == Role::Slave && changes.contains(&request.kind) {
            return Err(Error::IsSlave);
        }
        let out = &mut connection.output;
        match request.kind {
            message::HELLO | message::ERROR | message::ECHO_REPLY => {}
            message::ECHO_REQUEST => put_message(out, message::ECHO_REPLY, xid, |out| out.put(body.0)),
            message::EXPERIMENTER => return self.handle_bundle(id, request, now),
            message::FEATURES_REQUEST => {
                exactly(body, |_| Some(()))?;
                put_message(out, message::FEATURES_REPLY, xid, |out| {
                    out.u64(self.identity.datapath_id);
                    // No buffers, all tables, the main connection.
                    out.u32(0);
                    out.put(&[TABLES, 0, 0, 0]);
                    out.u32(CAPABILITIES);
                    out.u32(0);
                });
            }
            message::GET_CONFIG_REQUEST => {
                exactly(body, |_| Some(()))?;
                let miss_send_len = connection.miss_send_len;
                put_message(out, message::GET_CONFIG_REPLY, xid, |out| {
                    out.u16(0);
                    out.u16(miss_send_len);
                });
            }
            message::SET_CONFIG => {
                let (flags, miss_send_len) = exactly(body, |body| Some((body.u16()?, body.u16()?)))?;
                if flags != 0 {
                    return Err(Error::ConfigFlags);
                }
                connection.miss_send_len = miss_send_len;
            }
            message::BARRIER_REQUEST => {
                exactly(body, |_| Some(()))?;
                put_message(out, message::BARRIER_REPLY, xid, |_| {});
            }
            message::PACKET_OUT => {
                let known = Known { ports: &self.ports, groups: self.tables.groups(), meters: self.tables.meters() };
                self.events.push_back(packet_out(body, known)?);
            }
            message::FLOW_MOD | message::GROUP_MOD | message::METER_MOD => {
                let removed = self.change(request, now)?;
                self.flows_removed(&removed, now);
            }
            message::PORT_MOD => {
                let change = PortMod::read(body)?;
                self.check_port_change(&change)?;
                self.change_port(&change);
            }
            message::TABLE_MOD => {
                let [table, ..] = exactly(body, |body| body.array::<8>())?;
                if table >= TABLES && table != TABLE_ALL {
                    return Err(Error::TableModTable);
                }
            }
            message::MULTIPART_REQUEST => return self.handle_multipart(id, request, now),
            message::QUEUE_GET_CONFIG_REQUEST => {
                let number = exactly(body, |body| {
                    let number = body.u32()?;
                    body.take(4)?;
                    Some(number)
                })?;
                if number != port::ANY && !self.ports.contains_key(&number) {
                    return Err(Error::QueuePort);
                }
                put_message(out, message::QUEUE_GET_CONFIG_REPLY, xid, |out| {
                    out.u32(number);
                    out.zeros(4);
                });
            }
            message::ROLE_REQUEST => return self.set_role(id, request),
            message::GET_ASYNC_REQUEST => {
                exactly(body, |_| Some(()))?;
                let wanted = connection.wanted;
                put_message(out, message::GET_ASYNC_REPLY, xid, |out| {
                    wanted.as_flattened().iter().for_each(|mask| out.u32(*mask));
                });
            }
            message::SET_ASYNC => {
                let mut wanted = [[0; 2]; 3];
                exactly(body, |body| {
                    for mask in wanted.as_flattened_mut() {
                        *mask = body.u32()?;
                    }
                    Some(())
                })?;
                connection.wanted = wanted;
            }
            _ => return Err(Error::BadType),
        }
        Ok(())
    }

    /// Handles ROLE_REQUEST (Section 7.3.9).
    fn set_role(&mut self, id: ConnectionId, request: &Message) -> Result<(), Error> {
        let (role, generation) = exactly(request.body(), |body| {
            let role = body.u32()?;
            body.take(4)?;
            Some((role, body.u64()?))
        })?;
        let role = match role {
            0 => None,
            1 => Some(Role::Equal),
            2 => Some(Role::Master),
            3 => Some(Role::Slave),
            _ => return Err(Error::RoleBad),
        };
        if let Some(Role::Master | Role::Slave) = role {
            // Generations wrap around, so their difference tells which one is older.
            if self.generation.is_some_and(|seen| (generation.wrapping_sub(seen) as i64) < 0) {
                return Err(Error::RoleStale);
            }
            self.generation = Some(generation);
        }
        if role == Some(Role::Master) {
            let others = self.connections.values_mut().filter(|other| other.role == Role::Master);
            others.for_each(|other| other.role = Role::Slave);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.role = role.unwrap_or(connection.role);
        let (role, generation) = (connection.role as u32, self.generation.unwrap_or(u64::MAX));
        put_message(&mut connection.output, message::ROLE_REPLY, request.xid, |out| {
            out.u32(role);
            out.zeros(4);
            out.u64(generation);
        });
        Ok(())
    }
}

/// Reads a PACKET_OUT (Section 7.3.7).
fn packet_out(mut body: Reader, known: Known<'_>) -> Result<Event, Error> {
    let buffer = body.u32().ok_or(Error::BadLen)?;
    let in_port = body.u32().ok_or(Error::BadLen)?;
    let actions_len = body.u16().ok_or(Error::BadLen)?;
    body.take(6).ok_or(Error::BadLen)?;
    let actions = Reader(body.take(actions_len.into()).ok_or(Error::BadLen)?);
    if buffer != NO_BUFFER {
        return Err(Error::BufferUnknown);
    }
    // Without actions the packet is dropped: its content and its port do not matter.
    if actions.is_empty() {
        return Ok(Event::PacketOut { in_port, actions: Vec::new(), data: Vec::new() });
    }
    if !matches!(in_port, 1..=port::MAX | port::CONTROLLER | port::LOCAL | port::ANY) {
        return Err(Error::BadPort);
    }
    let actions = read_list(actions, Scope::PacketOut(known), &mut Match::any())?;
    if body.0.len() < header_len::ETHERNET {
        return Err(Error::BadPacket);
    }
    Ok(Event::PacketOut { in_port, actions, data: body.0.into() })
}
