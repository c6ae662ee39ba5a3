//! Actions (Section 7.2.4) and their validation.

use crate::aggregation::{EXPERIMENTER, SET_NFI};
use crate::error::Error;
use crate::field::Field;
use crate::key::VLAN_PRESENT;
use crate::matching::Match;
use crate::ofp::{action, port};
use crate::wire::Reader;
use packet::ethertype;

/// Maximum number of actions in one list.
const MAX_ACTIONS: usize = 64;

/// One action on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the packet in its current state.
    Output {
        /// A port's number, or one of [`crate::ofp::port`]: `IN_PORT`, `NORMAL`, `FLOOD`, `ALL`, `CONTROLLER`; `TABLE` in a
        /// PACKET_OUT only.
        port: u32,
        /// Bytes to send, for output to the controller.
        max_len: u16,
    },
    /// Add a VLAN tag with this EtherType, 0x8100 or 0x88a8.
    PushVlan(u16),
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Set a field to a value. The VID has the bit 0x1000, as in a key.
    SetField(Field, u128),
    /// Set the next hop in the aggregation table; zero for none.
    SetNfi(u16),
}

/// The context of a list of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    PacketOut,
    Forwarding,
    Aggregation,
}

/// Reads a list of actions. `known` describes the packets that the actions apply to, and is updated by each action.
pub(crate) fn read_list(mut list: Reader, scope: Scope, known: &mut Match) -> Result<Vec<Action>, Error> {
    let mut actions = Vec::new();
    while !list.is_empty() {
        let mut header = list;
        let kind = header.u16().ok_or(Error::ActionLen)?;
        let len = usize::from(header.u16().ok_or(Error::ActionLen)?);
        if len < 8 || len % 8 != 0 {
            return Err(Error::ActionLen);
        }
        let whole = list.take(len).ok_or(Error::ActionLen)?;
        if actions.len() == MAX_ACTIONS {
            return Err(Error::ActionTooMany);
        }
        let action = read(kind, Reader(&whole[4..]), scope, known)?;
        if (scope == Scope::Aggregation) != matches!(action, Action::SetNfi(_)) {
            return Err(Error::ActionArgument);
        }
        actions.push(action);
    }
    Ok(actions)
}

fn read(kind: u16, mut body: Reader, scope: Scope, known: &mut Match) -> Result<Action, Error> {
    let len = body.0.len() + 4;
    let exactly = |expected: usize| if len == expected { Ok(()) } else { Err(Error::ActionLen) };
    match kind {
        action::OUTPUT => {
            exactly(16)?;
            let port = body.u32().ok_or(Error::ActionLen)?;
            let max_len = body.u16().ok_or(Error::ActionLen)?;
            let valid = match port {
                1..=port::MAX | port::IN_PORT | port::NORMAL | port::FLOOD | port::ALL | port::CONTROLLER => true,
                port::TABLE => scope == Scope::PacketOut,
                _ => false,
            };
            if valid { Ok(Action::Output { port, max_len }) } else { Err(Error::ActionOutPort) }
        }
        action::PUSH_VLAN => {
            exactly(8)?;
            let ethertype = body.u16().ok_or(Error::ActionLen)?;
            if !ethertype::is_vlan(ethertype) {
                return Err(Error::ActionArgument);
            }
            *known = known.with(Field::VlanVid, VLAN_PRESENT.into(), VLAN_PRESENT.into());
            Ok(Action::PushVlan(ethertype))
        }
        action::POP_VLAN => {
            exactly(8)?;
            if known.is_untagged() {
                return Err(Error::ActionInconsistent);
            }
            *known = known.with(Field::VlanPcp, 0, 0).with(Field::VlanVid, 0, 0);
            Ok(Action::PopVlan)
        }
        action::SET_FIELD => set_field(body, scope, known),
        action::GROUP => Err(Error::ActionGroup),
        action::EXPERIMENTER => {
            if body.u32() != Some(EXPERIMENTER) {
                return Err(Error::ActionExperimenter);
            }
            if body.u16() != Some(SET_NFI) {
                return Err(Error::ActionExperimenterType);
            }
            exactly(16)?;
            Ok(Action::SetNfi(body.u16().ok_or(Error::ActionLen)?))
        }
        _ => Err(Error::ActionType),
    }
}

fn set_field(mut body: Reader, scope: Scope, known: &Match) -> Result<Action, Error> {
    let action_len = body.0.len() + 4;
    let (field, masked, len) = Field::read_header(&mut body).ok_or(Error::ActionSetLen)?;
    let field = field.filter(|field| field.settable() && !masked).ok_or(Error::ActionSetType)?;
    // The field is padded so that the action's length is a multiple of eight bytes.
    if len != field.len() || action_len != (8 + len).next_multiple_of(8) {
        return Err(Error::ActionSetLen);
    }
    let value = body.number(len).ok_or(Error::ActionSetLen)?;
    let vid_without_tag = field == Field::VlanVid && value & u128::from(VLAN_PRESENT) == 0;
    if value & !field.all() != 0 || vid_without_tag {
        return Err(Error::ActionSetArgument);
    }
    let possible = match field {
        Field::VlanVid | Field::VlanPcp => !known.is_untagged(),
        _ => known.has_field(field),
    };
    // A PACKET_OUT has no match: fields that its packet doesn't have are not set.
    if !possible && scope != Scope::PacketOut {
        return Err(Error::ActionInconsistent);
    }
    Ok(Action::SetField(field, value))
}

/// Returns the actions of an action set in order of execution (Section 5.10). Of each kind, the last one counts.
pub(crate) fn in_set_order(written: &[Action]) -> Vec<Action> {
    let kind = |action: &Action| match action {
        Action::PopVlan => (0, 0),
        Action::PushVlan(_) => (1, 0),
        Action::SetField(field, _) => (2, field.header()),
        Action::SetNfi(_) => (3, 0),
        Action::Output { .. } => (4, 0),
    };
    let mut set = std::collections::BTreeMap::new();
    for action in written {
        set.insert(kind(action), *action);
    }
    set.into_values().collect()
}
