//! FLOW_MOD (Section 7.3.4.1): reads it, checks it, and applies it to a table.

use super::all::Tables;
use super::table::OldCounts;
use crate::flows::{Filter, Flow, Instructions, Known, Match, Removed, Scope, ServiceChain, aggregation};
use crate::time::Millis;
use crate::wire::ofp::{NO_BUFFER, flag};
use crate::wire::{Error, Ports, Reader};

/// Commands, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Add,
    Modify,
    ModifyStrict,
    Delete,
    DeleteStrict,
}

/// The fields of a FLOW_MOD.
#[derive(Debug)]
pub(crate) struct FlowMod<'a> {
    pub table: u8,
    command: Command,
    idle_timeout: u16,
    hard_timeout: u16,
    priority: u16,
    buffer: u32,
    flags: u16,
    filter: Filter,
    instructions: Reader<'a>,
}

impl<'a> FlowMod<'a> {
    /// Reads the body of the message, except the instructions: [`Self::apply`] reads them for their table.
    pub fn read(mut body: Reader<'a>) -> Result<FlowMod<'a>, Error> {
        let mut fixed = Reader(body.take(40).ok_or(Error::BadLen)?);
        let mut read = || {
            let (cookie, cookie_mask) = (fixed.u64()?, fixed.u64()?);
            let [table, command] = fixed.array()?;
            let (idle_timeout, hard_timeout, priority) = (fixed.u16()?, fixed.u16()?, fixed.u16()?);
            let (buffer, out_port, out_group, flags) = (fixed.u32()?, fixed.u32()?, fixed.u32()?, fixed.u16()?);
            let filter = Filter { matches: Match::any(), strict: None, cookie, cookie_mask, out_port, out_group };
            let command = match command {
                0 => Ok(Command::Add),
                1 => Ok(Command::Modify),
                2 => Ok(Command::ModifyStrict),
                3 => Ok(Command::Delete),
                4 => Ok(Command::DeleteStrict),
                _ => Err(Error::FlowCommand),
            };
            Some((
                command,
                FlowMod {
                    table,
                    command: Command::Add,
                    idle_timeout,
                    hard_timeout,
                    priority,
                    buffer,
                    flags,
                    filter,
                    instructions: Reader(&[]),
                },
            ))
        };
        let (command, mut read) = read().ok_or(Error::BadLen)?;
        read.command = command?;
        if read.flags & !flag::KNOWN != 0 {
            return Err(Error::FlowFlags);
        }
        read.filter.matches = Match::read(&mut body)?;
        read.instructions = body;
        let filter = &mut read.filter;
        if matches!(read.command, Command::ModifyStrict | Command::DeleteStrict) {
            filter.strict = Some(read.priority);
        }
        // Only deletions can be filtered by output.
        if !matches!(read.command, Command::Delete | Command::DeleteStrict) {
            (filter.out_port, filter.out_group) = (u32::MAX, u32::MAX);
        }
        Ok(read)
    }

    /// Reports whether a message with this body may have to look at all flows, and not only at the one that it names.
    pub fn visits_all(body: Reader<'a>) -> bool {
        let change = FlowMod::read(body);
        change.is_ok_and(|change| {
            matches!(change.command, Command::Modify | Command::Delete) || change.flags & flag::CHECK_OVERLAP != 0
        })
    }

    /// Applies it, at time `now`. Outputs must go to one of the `ports`. Returns the removed flows.
    pub fn apply(&self, tables: &mut Tables, ports: &Ports, now: Millis) -> Result<Vec<Removed>, Error> {
        let (meant, shared) = tables.meant_mut(self.table);
        let (Some(first), rest) = (meant.first(), meant.len() > 1) else { return Err(Error::FlowTableId) };
        let number = first.number();
        match self.command {
            Command::Delete | Command::DeleteStrict => {
                return Ok(meant.iter_mut().flat_map(|table| table.delete(shared, &self.filter, now)).collect());
            }
            _ if self.buffer != NO_BUFFER => return Err(Error::BufferUnknown),
            // Only deletions can be of all tables.
            _ if rest => return Err(Error::FlowTableId),
            _ => {}
        }
        let scope = if number == aggregation::TABLE {
            Scope::Aggregation
        } else {
            Scope::Forwarding(Known { ports, groups: &shared.groups, meters: &shared.meters })
        };
        let instructions = Instructions::read(self.instructions, scope, number, &self.filter.matches)?;
        if number == aggregation::TABLE && !shared.has_next_hop(instructions.nfi()) {
            return Err(Error::ActionArgument);
        }
        let table = &mut meant[0];
        let counts = if self.flags & flag::RESET_COUNTS != 0 { OldCounts::Reset } else { OldCounts::Keep };
        if self.command != Command::Add {
            return table.modify(shared, &self.filter, &instructions, counts).map(|()| Vec::new());
        }
        if number == aggregation::TABLE {
            ServiceChain::of(&self.filter.matches)?;
        }
        if self.flags & flag::CHECK_OVERLAP != 0 && table.overlaps(&self.filter.matches, self.priority) {
            return Err(Error::FlowOverlap);
        }
        let flow = Flow {
            matches: self.filter.matches,
            priority: self.priority,
            cookie: self.filter.cookie,
            flags: self.flags,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            instructions,
            created: now,
            used: now,
            packets: 0,
            bytes: 0,
        };
        table.add(shared, flow, counts).map(|()| Vec::new())
    }
}
