//! Instructions (Section 7.2.3).

use super::action::{Action, Scope, in_set_order, read_list};
use super::matching::Match;
use crate::limits::FORWARDING;
use crate::wire::ofp::instruction;
use crate::wire::{Error, Reader};
use std::sync::Arc;

/// The instructions of a flow.
#[derive(Clone, Debug)]
pub struct Instructions {
    /// As received, for statistics requests.
    pub(crate) raw: Box<[u8]>,
    /// The meter that measures packets first.
    pub meter: Option<u32>,
    /// Actions that are applied at once, in their order.
    pub applied: Arc<[Action]>,
    /// Whether the action set is cleared first.
    pub clears: bool,
    /// Actions that are written to the action set, in its order.
    pub written: Arc<[Action]>,
    /// Value and mask that are written to the metadata.
    pub metadata: Option<(u64, u64)>,
    /// The next table.
    pub next: Option<u8>,
}

impl Instructions {
    /// Reads all of `list`, for a flow with match `known` in this table.
    pub(crate) fn read(mut list: Reader, scope: Scope<'_>, table: u8, known: &Match) -> Result<Instructions, Error> {
        let mut read = Instructions {
            raw: list.0.into(),
            meter: None,
            applied: [].into(),
            clears: false,
            written: [].into(),
            metadata: None,
            next: None,
        };
        let mut known = *known;
        let mut seen = 0u8;
        while !list.is_empty() {
            let mut header = list;
            let kind = header.u16().ok_or(Error::InstructionLen)?;
            let len = usize::from(header.u16().ok_or(Error::InstructionLen)?);
            if len < 8 || len % 8 != 0 {
                return Err(Error::InstructionLen);
            }
            let mut body = Reader(&list.take(len).ok_or(Error::InstructionLen)?[4..]);
            if kind < 8 {
                if seen & 1 << kind != 0 {
                    // At most one of each kind; version 1.3 has no separate code for this error.
                    return Err(Error::InstructionUnsupported);
                }
                seen |= 1 << kind;
            }
            match kind {
                instruction::APPLY_ACTIONS => {
                    body.take(4).ok_or(Error::InstructionLen)?;
                    read.applied = read_list(body, scope, &mut known)?.into();
                }
                instruction::WRITE_ACTIONS => {
                    body.take(4).ok_or(Error::InstructionLen)?;
                    read.written = in_set_order(&read_list(body, scope, &mut known.clone())?).into();
                }
                instruction::CLEAR_ACTIONS if len == 8 => read.clears = true,
                instruction::CLEAR_ACTIONS => return Err(Error::InstructionLen),
                instruction::WRITE_METADATA => read.metadata = Some(metadata(body, scope)?),
                instruction::GOTO_TABLE if matches!(scope, Scope::Forwarding(_)) => {
                    let next = body.u8().filter(|_| len == 8).ok_or(Error::InstructionLen)?;
                    if next <= table || next >= FORWARDING {
                        return Err(Error::InstructionTable);
                    }
                    read.next = Some(next);
                }
                instruction::GOTO_TABLE => return Err(Error::InstructionTable),
                instruction::METER => {
                    let id = body.u32().filter(|_| len == 8).ok_or(Error::InstructionLen)?;
                    read.meter = Some(scope.meter(id)?);
                }
                instruction::EXPERIMENTER => return Err(Error::InstructionExperimenter),
                _ => return Err(Error::InstructionUnknown),
            }
        }
        Ok(read)
    }

    /// Reports whether an action sends packets to `port`.
    pub(super) fn sends_to(&self, port: u32) -> bool {
        let sends = |action: &Action| matches!(action, Action::Output { port: to, .. } if *to == port);
        self.applied.iter().chain(&self.written[..]).any(sends)
    }

    /// Returns the groups that actions send packets to.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        let group = |action: &Action| if let Action::Group(id) = action { Some(*id) } else { None };
        self.applied.iter().chain(&self.written[..]).filter_map(group)
    }

    /// Returns the next hop that a flow of the aggregation table sets; zero for none.
    pub(crate) fn nfi(&self) -> u16 {
        let nfi = |action: &Action| if let Action::SetNfi(nfi) = action { Some(*nfi) } else { None };
        let set = self.applied.iter().chain(&self.written[..]).rev().find_map(nfi);
        set.or(self.metadata.map(|(value, _)| value as u16)).unwrap_or(0)
    }
}

/// Reads write-metadata. In the aggregation table it sets the next hop, without our experimenter action.
fn metadata(mut body: Reader, scope: Scope<'_>) -> Result<(u64, u64), Error> {
    body.take(4).ok_or(Error::InstructionLen)?;
    let value = body.u64().ok_or(Error::InstructionLen)?;
    let mask = body.u64().ok_or(Error::InstructionLen)?;
    if !body.is_empty() {
        return Err(Error::InstructionLen);
    }
    if let Scope::Aggregation = scope {
        if mask != u64::MAX {
            return Err(Error::InstructionMetadataMask);
        }
        if value > u64::from(u16::MAX) {
            return Err(Error::InstructionMetadata);
        }
    }
    Ok((value, mask))
}
