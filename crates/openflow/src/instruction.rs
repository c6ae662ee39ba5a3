//! Instructions (Section 7.2.3). As there is one forwarding table, they reduce to one list of actions when a flow is
//! added.

use crate::action::{Action, Scope, in_set_order, read_list};
use crate::error::Error;
use crate::matching::Match;
use crate::ofp::instruction;
use crate::wire::Reader;
use std::sync::Arc;

/// The instructions of a flow.
#[derive(Clone, Debug)]
pub struct Instructions {
    /// As received, for statistics requests.
    pub(crate) raw: Box<[u8]>,
    /// Actions in order of execution: apply-actions first, then the action set.
    pub actions: Arc<[Action]>,
}

impl Instructions {
    /// Reads all of `list`, for a flow with match `known`.
    pub(crate) fn read(mut list: Reader, scope: Scope, known: &Match) -> Result<Instructions, Error> {
        let raw = list.0.into();
        let mut known = *known;
        let (mut applied, mut written, mut seen) = (Vec::new(), Vec::new(), 0u8);
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
                    applied = read_list(body, scope, &mut known)?;
                }
                instruction::WRITE_ACTIONS => {
                    body.take(4).ok_or(Error::InstructionLen)?;
                    written = read_list(body, scope, &mut known)?;
                }
                instruction::CLEAR_ACTIONS if len == 8 => {}
                instruction::CLEAR_ACTIONS => return Err(Error::InstructionLen),
                instruction::WRITE_METADATA if scope == Scope::Aggregation => applied = vec![metadata(body)?],
                instruction::GOTO_TABLE => return Err(Error::InstructionTable),
                instruction::WRITE_METADATA | instruction::METER => return Err(Error::InstructionUnsupported),
                instruction::EXPERIMENTER => return Err(Error::InstructionExperimenter),
                _ => return Err(Error::InstructionUnknown),
            }
        }
        applied.extend(in_set_order(&written));
        Ok(Instructions { raw, actions: applied.into() })
    }

    /// Reports whether an action sends packets to `port`.
    pub(crate) fn sends_to(&self, port: u32) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Output { port: to, .. } if *to == port))
    }

    /// Returns the next hop that it sets; zero for none.
    pub(crate) fn nfi(&self) -> u16 {
        let nfi = |action: &Action| if let Action::SetNfi(nfi) = action { Some(*nfi) } else { None };
        self.actions.iter().rev().find_map(nfi).unwrap_or(0)
    }
}

/// Reads write-metadata, which sets the next hop in the aggregation table without our experimenter action.
fn metadata(mut body: Reader) -> Result<Action, Error> {
    body.take(4).ok_or(Error::InstructionLen)?;
    let value = body.u64().ok_or(Error::InstructionLen)?;
    let mask = body.u64().ok_or(Error::InstructionLen)?;
    if !body.is_empty() {
        return Err(Error::InstructionLen);
    }
    if mask != u64::MAX {
        return Err(Error::InstructionMetadataMask);
    }
    u16::try_from(value).map(Action::SetNfi).map_err(|_| Error::InstructionMetadata)
}
