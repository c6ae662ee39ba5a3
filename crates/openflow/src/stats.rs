//! Statistics and features of tables and flows, as multipart messages have them (Section 7.3.5).

use crate::action::Scope;
use crate::aggregation;
use crate::field::{FIELDS, Field};
use crate::ofp::{action, instruction};
use crate::port::write_duration;
use crate::table::{Flow, FlowTable, Millis};
use crate::wire::Put;

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
pub(crate) fn table_stats(id: u8, table: &FlowTable) -> Vec<u8> {
    let mut out = vec![id, 0, 0, 0];
    out.u32(table.len() as u32);
    out.u64(table.looked_up);
    out.u64(table.found);
    out
}

/// Builds an `ofp_table_features`: the matches and actions that a table supports.
pub(crate) fn table_features(id: u8, table: &FlowTable) -> Vec<u8> {
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
    let fields = |wanted: fn(Field) -> bool| {
        FIELDS.into_iter().filter(|field| wanted(*field)).map(|field| field.header()).collect::<Vec<u32>>()
    };
    let apply = [instruction::WRITE_ACTIONS, instruction::APPLY_ACTIONS, instruction::CLEAR_ACTIONS];
    let (instructions, actions, matched, set) = if scope == Scope::Aggregation {
        // Its action is an experimenter action, which a list of types can't identify.
        let chain = |field| matches!(field, Field::VlanVid | Field::TunnelId);
        (headers(&[&[instruction::WRITE_METADATA][..], &apply].concat()), Vec::new(), fields(chain), Vec::new())
    } else {
        let actions = headers(&[action::OUTPUT, action::PUSH_VLAN, action::POP_VLAN, action::SET_FIELD]);
        (headers(&apply), actions, fields(|_| true), fields(Field::settable))
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
