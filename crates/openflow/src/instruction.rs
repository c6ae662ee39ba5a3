//! Instructions (Section 7.2.3). With one table for forwarding, all that they say is known when a flow is added: one list
//! of actions.

use crate::action::{Action, Scope, in_set_order, read_list};
use crate::error::Error;
use crate::fields::Match;
use crate::ofp::instruction;
use crate::wire::Reader;
use std::sync::Arc;

/// What a flow does.
#[derive(Clone, Debug)]
pub struct Instructions {
    /// As they came, for those who ask.
    pub(crate) raw: Box<[u8]>,
    /// In the order in which they are done: those to apply, and then those of the action set.
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
                    // One of each kind at most; 1.3 has no code of its own for it.
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

    /// A packet may be sent to `port`.
    pub(crate) fn sends_to(&self, port: u32) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Output { port: to, .. } if *to == port))
    }

    /// What it sets the next hop to; zero for none.
    pub(crate) fn nfi(&self) -> u16 {
        let nfi = |action: &Action| if let Action::SetNfi(nfi) = action { Some(*nfi) } else { None };
        self.actions.iter().rev().find_map(nfi).unwrap_or(0)
    }
}

/// In the aggregation table, the metadata is the next hop: what controllers can say without our experimenter action.
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
