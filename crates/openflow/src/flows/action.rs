//! Actions (Section 7.2.4) and their validation.

use super::aggregation::{EXPERIMENTER, SET_NFI};
use super::matching::Match;
use crate::keys::VLAN_PRESENT;
use crate::wire::ofp::{action, port};
use crate::wire::{Error, Field, Ports, Reader};
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
    /// Send the packet to a group.
    Group(u32),
    /// Add a VLAN tag with this EtherType, 0x8100 or 0x88a8.
    PushVlan(u16),
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Add an MPLS label with this EtherType, 0x8847 or 0x8848.
    PushMpls(u16),
    /// Remove the outermost MPLS label; what follows has this EtherType.
    PopMpls(u16),
    /// Set the TTL of the outermost MPLS label.
    SetMplsTtl(u8),
    /// Decrement the TTL of the outermost MPLS label; a packet whose TTL runs out is dropped.
    DecMplsTtl,
    /// Set the TTL of IPv4, or the hop limit of IPv6.
    SetIpTtl(u8),
    /// Decrement the TTL of IPv4 or the hop limit of IPv6; a packet whose TTL runs out is dropped.
    DecIpTtl,
    /// Copy the TTL of the second header to the outermost: from IP or MPLS to MPLS.
    CopyTtlOut,
    /// Copy the TTL of the outermost header to the second: from MPLS to MPLS or IP.
    CopyTtlIn,
    /// Set a field to a value. The VID has the bit 0x1000, as in a key.
    SetField(Field, u128),
    /// Set the next hop in the aggregation table; zero for none.
    SetNfi(u16),
}

/// The ports, groups and meters that flows can name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'k> {
    pub ports: &'k Ports,
    /// Numbers of groups.
    pub groups: &'k dyn Contains,
    /// Numbers of meters.
    pub meters: &'k dyn Contains,
}

/// A set of numbers.
pub(crate) trait Contains: std::fmt::Debug {
    fn contains(&self, number: u32) -> bool;
}

/// The empty set.
impl Contains for () {
    fn contains(&self, _: u32) -> bool {
        false
    }
}

/// The context of a list of actions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'k> {
    PacketOut(Known<'k>),
    /// A flow in a table that forwards.
    Forwarding(Known<'k>),
    /// A bucket of a group.
    Bucket(Known<'k>),
    Aggregation,
}

impl Scope<'_> {
    fn has_port(self, number: u32) -> bool {
        match self {
            Scope::PacketOut(known) | Scope::Forwarding(known) | Scope::Bucket(known) => {
                known.ports.contains_key(&number)
            }
            // Outputs are wrong there: the caller refuses them.
            Scope::Aggregation => true,
        }
    }

    /// Checks that a flow can name a meter; returns its number.
    pub(crate) fn meter(self, id: u32) -> Result<u32, Error> {
        match self {
            Scope::Forwarding(known) if known.meters.contains(id) => Ok(id),
            Scope::Forwarding(_) => Err(Error::MeterUnknown),
            _ => Err(Error::InstructionUnsupported),
        }
    }

    /// Reports whether the packets are unknown. An action that does not apply to a packet then leaves it as it is.
    fn is_any(self) -> bool {
        matches!(self, Scope::PacketOut(_) | Scope::Bucket(_))
    }
}

/// Reads a list of actions. `known` describes the packets that the actions apply to, and is updated by each action.
pub(crate) fn read_list(mut list: Reader, scope: Scope<'_>, known: &mut Match) -> Result<Vec<Action>, Error> {
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
        if matches!(scope, Scope::Aggregation) != matches!(action, Action::SetNfi(_)) {
            return Err(Error::ActionArgument);
        }
        actions.push(action);
    }
    Ok(actions)
}

fn read(kind: u16, mut body: Reader, scope: Scope<'_>, known: &mut Match) -> Result<Action, Error> {
    let len = body.0.len() + 4;
    let exactly = |expected: usize| if len == expected { Ok(()) } else { Err(Error::ActionLen) };
    match kind {
        action::OUTPUT => {
            exactly(16)?;
            let port = body.u32().ok_or(Error::ActionLen)?;
            let max_len = body.u16().ok_or(Error::ActionLen)?;
            let valid = match port {
                1..=port::MAX => scope.has_port(port),
                port::IN_PORT | port::NORMAL | port::FLOOD | port::ALL | port::CONTROLLER => true,
                port::TABLE => matches!(scope, Scope::PacketOut(_)),
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
            takes(!known.is_untagged(), scope)?;
            *known = known.with(Field::VlanPcp, 0, 0).with(Field::VlanVid, 0, 0);
            Ok(Action::PopVlan)
        }
        action::PUSH_MPLS | action::POP_MPLS => {
            exactly(8)?;
            let ethertype = body.u16().ok_or(Error::ActionLen)?;
            let pushes = kind == action::PUSH_MPLS;
            if pushes && !ethertype::is_mpls(ethertype) {
                return Err(Error::ActionArgument);
            }
            if !pushes {
                takes(has_mpls(known), scope)?;
            }
            *known = known.with(Field::EthType, ethertype.into(), u128::MAX);
            Ok(if pushes { Action::PushMpls(ethertype) } else { Action::PopMpls(ethertype) })
        }
        action::SET_MPLS_TTL | action::DEC_MPLS_TTL | action::COPY_TTL_OUT | action::COPY_TTL_IN => {
            exactly(8)?;
            let ttl = body.u8().ok_or(Error::ActionLen)?;
            takes(has_mpls(known), scope)?;
            Ok(match kind {
                action::SET_MPLS_TTL => Action::SetMplsTtl(ttl),
                action::DEC_MPLS_TTL => Action::DecMplsTtl,
                action::COPY_TTL_OUT => Action::CopyTtlOut,
                _ => Action::CopyTtlIn,
            })
        }
        action::SET_NW_TTL | action::DEC_NW_TTL => {
            exactly(8)?;
            let ttl = body.u8().ok_or(Error::ActionLen)?;
            takes(known.has_field(Field::IpProto), scope)?;
            Ok(if kind == action::SET_NW_TTL { Action::SetIpTtl(ttl) } else { Action::DecIpTtl })
        }
        action::SET_FIELD => set_field(body, scope, known),
        action::GROUP => {
            exactly(8)?;
            let id = body.u32().ok_or(Error::ActionLen)?;
            match scope {
                Scope::Bucket(_) => Err(Error::GroupChaining),
                Scope::PacketOut(known) | Scope::Forwarding(known) if !known.groups.contains(id) => {
                    Err(Error::ActionGroup)
                }
                _ => Ok(Action::Group(id)),
            }
        }
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

fn has_mpls(known: &Match) -> bool {
    known.has_field(Field::MplsLabel)
}

/// Checks that an action applies to the packets, as `possible` says.
fn takes(possible: bool, scope: Scope<'_>) -> Result<(), Error> {
    if possible || scope.is_any() { Ok(()) } else { Err(Error::ActionInconsistent) }
}

fn set_field(mut body: Reader, scope: Scope<'_>, known: &mut Match) -> Result<Action, Error> {
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
    takes(possible, scope)?;
    // Later fields may depend on this one.
    *known = known.with(field, value, u128::MAX);
    Ok(Action::SetField(field, value))
}

/// The place of an action in an action set, which has one action for each (Section 5.10).
pub type SetKey = (u8, u32);

impl Action {
    /// Returns its place in an action set.
    pub fn set_key(&self) -> SetKey {
        match self {
            Action::CopyTtlIn => (0, 0),
            Action::PopVlan => (1, 0),
            Action::PopMpls(_) => (1, 1),
            Action::PushMpls(_) => (2, 0),
            Action::PushVlan(_) => (3, 0),
            Action::CopyTtlOut => (4, 0),
            Action::DecIpTtl => (5, 0),
            Action::DecMplsTtl => (5, 1),
            Action::SetIpTtl(_) => (6, 0),
            Action::SetMplsTtl(_) => (6, 1),
            Action::SetField(field, _) => (7, field.header()),
            Action::SetNfi(_) => (8, 0),
            Action::Group(_) => (9, 0),
            Action::Output { .. } => (10, 0),
        }
    }
}

/// Returns the actions of an action set in order of execution (Section 5.10). Of each kind, the last one counts.
pub(crate) fn in_set_order(written: &[Action]) -> Vec<Action> {
    let set: std::collections::BTreeMap<SetKey, Action> =
        written.iter().map(|action| (action.set_key(), *action)).collect();
    set.into_values().collect()
}
