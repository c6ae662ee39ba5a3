//! Multipart requests (Section 7.3.5): descriptions and statistics.

use crate::action::Scope;
use crate::aggregation;
use crate::answer::{Answer, Entries, Flows};
use crate::error::Error;
use crate::fields::{FIELDS, Match};
use crate::ofp::{TABLE_ALL, action, instruction, multipart, port};
use crate::port::write_duration;
use crate::switch::{ConnectionId, Switch};
use crate::table::{Filter, Flow, FlowTable, Millis};
use crate::wire::{Message, Put, Reader};
use std::collections::VecDeque;

/// Reads the table and the filter of a request for flows.
fn read_filter(mut body: Reader) -> Result<(u8, Filter), Error> {
    let mut fixed = || {
        let table = body.u8()?;
        body.take(3)?;
        let (out_port, out_group) = (body.u32()?, body.u32()?);
        body.take(4)?;
        let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
        Some((table, Filter { matches: Match::any(), strict: None, cookie, cookie_mask, out_port, out_group }))
    };
    let (table, mut filter) = fixed().ok_or(Error::BadLen)?;
    filter.matches = Match::read(&mut body)?;
    if body.is_empty() { Ok((table, filter)) } else { Err(Error::BadLen) }
}

/// Builds an `ofp_flow_stats`.
pub(crate) fn flow_stats(table: u8, flow: &Flow, now: Millis) -> Vec<u8> {
    let mut out = vec![0, 0, table, 0];
    write_duration(&mut out, now.saturating_sub(flow.created));
    for value in [flow.priority, flow.idle_timeout, flow.hard_timeout, flow.flags] {
        out.u16(value);
    }
    out.zeros(4);
    for value in [flow.cookie, flow.packets, flow.bytes] {
        out.u64(value);
    }
    flow.matches.write(&mut out);
    out.put(&flow.instructions.raw);
    let len = out.len() as u16;
    out[..2].copy_from_slice(&len.to_be_bytes());
    out
}

/// Builds an `ofp_table_stats`.
fn table_stats(id: u8, table: &FlowTable) -> Vec<u8> {
    let mut out = vec![id, 0, 0, 0];
    out.u32(table.len() as u32);
    out.u64(table.looked_up);
    out.u64(table.found);
    out
}

/// Builds an `ofp_table_features`: the matches and actions that a table supports.
fn table_features(id: u8, table: &FlowTable) -> Vec<u8> {
    let scope = if id == aggregation::TABLE { Scope::Aggregation } else { Scope::Forwarding };
    let mut out = vec![0, 0, id, 0, 0, 0, 0, 0];
    let mut name = [0; 32];
    let text: &[u8] = if scope == Scope::Aggregation { b"aggregation" } else { b"forwarding" };
    name[..text.len()].copy_from_slice(text);
    out.put(&name);
    out.u64(0);
    out.u64(if scope == Scope::Aggregation { 0xffff } else { 0 });
    out.u32(0);
    out.u32(table.limit() as u32);
    // Types of instructions and actions are listed as headers of four bytes.
    let headers = |types: &[u16]| types.iter().map(|kind| u32::from(*kind) << 16 | 4).collect::<Vec<u32>>();
    let fields = |wanted: fn(crate::Field) -> bool| {
        FIELDS.into_iter().filter(|field| wanted(*field)).map(|field| field.header()).collect::<Vec<u32>>()
    };
    let apply = [instruction::WRITE_ACTIONS, instruction::APPLY_ACTIONS, instruction::CLEAR_ACTIONS];
    let (instructions, actions, matched, set) = if scope == Scope::Aggregation {
        // Its action is an experimenter action, which a list of types can't identify.
        let chain = |field| matches!(field, crate::Field::VlanVid | crate::Field::TunnelId);
        (headers(&[&[instruction::WRITE_METADATA][..], &apply].concat()), Vec::new(), fields(chain), Vec::new())
    } else {
        let actions = headers(&[action::OUTPUT, action::PUSH_VLAN, action::POP_VLAN, action::SET_FIELD]);
        (headers(&apply), actions, fields(|_| true), fields(crate::Field::settable))
    };
    // Numbers of `ofp_table_feature_prop_type`. The properties for table misses are the same, and left out.
    for (kind, values) in [
        (0, &instructions),
        (2, &Vec::new()),
        (4, &actions),
        (6, &actions),
        (8, &matched),
        (10, &matched),
        (12, &set),
        (14, &set),
    ] {
        let len = 4 + values.len() * 4;
        out.u16(kind);
        out.u16(len as u16);
        values.iter().for_each(|value| out.u32(*value));
        out.zeros(len.next_multiple_of(8) - len);
    }
    let len = out.len() as u16;
    out[..2].copy_from_slice(&len.to_be_bytes());
    out
}

impl Switch {
    /// Builds an `ofp_desc`.
    fn description(&self) -> Vec<u8> {
        let identity = &self.identity;
        let mut out = Vec::new();
        for (text, len) in [
            (&identity.manufacturer, 256),
            (&identity.hardware, 256),
            (&identity.software, 256),
            (&identity.serial, 32),
            (&identity.datapath, 256),
        ] {
            let end = out.len() + len;
            out.extend(text.bytes().take(len - 1));
            out.resize(end, 0);
        }
        out
    }

    /// Handles MULTIPART_REQUEST. The answer is built when the controller's output is taken.
    pub(crate) fn multipart(&mut self, id: ConnectionId, request: &Message, now: Millis) -> Result<(), Error> {
        let mut body = request.body();
        let kind = body.u16().ok_or(Error::BadLen)?;
        let flags = body.u16().ok_or(Error::BadLen)?;
        body.take(4).ok_or(Error::BadLen)?;
        if flags & multipart::MORE != 0 {
            return Err(Error::MultipartOverflow);
        }
        let entries = self.entries(kind, body, now)?;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer = Some(Answer::new(request.xid, kind, entries));
        }
        Ok(())
    }

    fn entries(&self, kind: u16, mut body: Reader, now: Millis) -> Result<Entries, Error> {
        let all = || self.tables.meant(TABLE_ALL).unwrap_or_default().into_iter();
        let empty = if body.is_empty() { Ok(()) } else { Err(Error::BadLen) };
        Ok(Entries::Listed(match kind {
            multipart::DESC => {
                empty?;
                VecDeque::from([self.description()])
            }
            multipart::FLOW => {
                let (table, filter) = read_filter(body)?;
                let tables = self.tables.meant(table).ok_or(Error::BadTableId)?;
                let tables = tables.into_iter().map(|(id, table)| (id, table.ids())).collect();
                return Ok(Entries::Flows(Flows { filter, tables, now }));
            }
            multipart::AGGREGATE => {
                let (table, filter) = read_filter(body)?;
                let tables = self.tables.meant(table).ok_or(Error::BadTableId)?;
                let (mut packets, mut bytes, mut flows) = (0u64, 0u64, 0u32);
                for flow in tables.iter().flat_map(|(_, table)| table.select(&filter)) {
                    packets += flow.packets;
                    bytes += flow.bytes;
                    flows += 1;
                }
                let mut out = Vec::new();
                out.u64(packets);
                out.u64(bytes);
                out.u32(flows);
                out.zeros(4);
                VecDeque::from([out])
            }
            multipart::TABLE => {
                empty?;
                all().map(|(id, table)| table_stats(id, table)).collect()
            }
            multipart::TABLE_FEATURES => {
                empty.map_err(|_| Error::TableFeaturesNotAllowed)?;
                all().map(|(id, table)| table_features(id, table)).collect()
            }
            multipart::PORT_STATS => {
                let wanted = body.u32().ok_or(Error::BadLen)?;
                body.take(4).filter(|_| body.is_empty()).ok_or(Error::BadLen)?;
                if wanted != port::ANY && !self.ports.contains_key(&wanted) {
                    return Err(Error::BadPort);
                }
                let meant = self.ports.iter().filter(|(number, _)| wanted == port::ANY || wanted == **number);
                let stats = |(_, attached): (&u32, &crate::port::Attached)| {
                    let mut out = Vec::new();
                    attached.write_stats(&mut out, now);
                    out
                };
                meant.map(stats).collect()
            }
            multipart::PORT_DESC => {
                empty?;
                let describe = |attached: &crate::port::Attached| {
                    let mut out = Vec::new();
                    attached.port.write(&mut out);
                    out
                };
                self.ports.values().map(describe).collect()
            }
            // There are no queues.
            multipart::QUEUE => {
                body.take(8).filter(|_| body.is_empty()).ok_or(Error::BadLen)?;
                VecDeque::new()
            }
            multipart::EXPERIMENTER => return Err(Error::BadExperimenter),
            _ => return Err(Error::BadMultipart),
        }))
    }
}
