//! Multipart requests (Section 7.3.5): descriptions and statistics.

use super::answer::{Answer, Entries, Flows};
use super::stats::{group_features, table_features, table_stats};
use super::switch::{ConnectionId, Switch};
use crate::flows::{Filter, Instructions, Match};
use crate::tables::{FlowTable, Meters, Wanted};
use crate::time::Millis;
use crate::wire::ofp::{group, meter, multipart, port, queue};
use crate::wire::{Attached, Error, Message, Put, Reader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Reads the body of a request for one port, group or meter, or for all.
fn number(mut body: Reader) -> Result<u32, Error> {
    let wanted = body.u32().ok_or(Error::BadLen)?;
    body.take(4).filter(|_| body.is_empty()).ok_or(Error::BadLen)?;
    Ok(wanted)
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
    pub(super) fn handle_multipart(&mut self, id: ConnectionId, request: &Message, now: Millis) -> Result<(), Error> {
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

    /// Returns the number of flows that use each group or meter, which `used` returns for a flow.
    fn users(&self, used: impl Fn(&Instructions) -> BTreeSet<u32>) -> BTreeMap<u32, u32> {
        let mut users = BTreeMap::new();
        for flow in self.tables.forwarding().iter().flat_map(FlowTable::flows) {
            used(&flow.instructions).into_iter().for_each(|id| *users.entry(id).or_default() += 1);
        }
        users
    }

    fn entries(&self, kind: u16, mut body: Reader, now: Millis) -> Result<Entries, Error> {
        let all = || self.tables.all().iter();
        let meant =
            |table: u8| Some(self.tables.meant(table)).filter(|meant| !meant.is_empty()).ok_or(Error::BadTableId);
        let empty = if body.is_empty() { Ok(()) } else { Err(Error::BadLen) };
        Ok(Entries::Listed(match kind {
            multipart::DESC => {
                empty?;
                VecDeque::from([self.description()])
            }
            multipart::FLOW => {
                let (table, filter) = read_filter(body)?;
                let tables = meant(table)?.iter().map(|table| (table.number(), table.ids())).collect();
                return Ok(Entries::Flows(Box::new(Flows { filter, tables, now })));
            }
            multipart::AGGREGATE => {
                let (table, filter) = read_filter(body)?;
                let (mut packets, mut bytes, mut flows) = (0u64, 0u64, 0u32);
                for flow in meant(table)?.iter().flat_map(|table| table.select(&filter)) {
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
                all().map(table_stats).collect()
            }
            multipart::TABLE_FEATURES => {
                empty.map_err(|_| Error::TableFeaturesNotAllowed)?;
                all().map(table_features).collect()
            }
            multipart::PORT_STATS => {
                let wanted = number(body)?;
                if wanted != port::ANY && !self.ports.contains_key(&wanted) {
                    return Err(Error::BadPort);
                }
                let meant = self.ports.iter().filter(|(number, _)| wanted == port::ANY || wanted == **number);
                let stats = |(_, attached): (&u32, &Attached)| {
                    let mut out = Vec::new();
                    attached.write_stats(&mut out, now);
                    out
                };
                meant.map(stats).collect()
            }
            multipart::PORT_DESC => {
                empty?;
                let describe = |attached: &Attached| {
                    let mut out = Vec::new();
                    attached.port.write(attached.config, &mut out);
                    out
                };
                self.ports.values().map(describe).collect()
            }
            multipart::GROUP => {
                let flows = self.users(|instructions| instructions.groups().collect());
                self.tables.groups().stats(
                    Wanted::of(number(body)?, group::ALL),
                    &self.tables.counters().lanes(),
                    &flows,
                    now,
                )
            }
            multipart::GROUP_DESC => {
                empty?;
                return Ok(Entries::Groups(Some(0)));
            }
            multipart::GROUP_FEATURES => {
                empty?;
                VecDeque::from([group_features()])
            }
            multipart::METER => {
                let flows = self.users(|instructions| instructions.meter.into_iter().collect());
                self.tables.meters().stats(
                    Wanted::of(number(body)?, meter::ALL),
                    &self.tables.counters().lanes(),
                    &flows,
                    now,
                )?
            }
            multipart::METER_CONFIG => self.tables.meters().describe(Wanted::of(number(body)?, meter::ALL))?,
            multipart::METER_FEATURES => {
                empty?;
                VecDeque::from([Meters::features()])
            }
            // There are no queues.
            multipart::QUEUE => {
                let mut wanted = || Some((body.u32()?, body.u32()?));
                let (number, id) = wanted().filter(|_| body.is_empty()).ok_or(Error::BadLen)?;
                if number != port::ANY && !self.ports.contains_key(&number) {
                    return Err(Error::QueuePort);
                }
                if id != queue::ALL {
                    return Err(Error::QueueUnknown);
                }
                VecDeque::new()
            }
            multipart::EXPERIMENTER => return Err(Error::BadExperimenter),
            _ => return Err(Error::BadMultipart),
        }))
    }
}
