//! Statistics and features of tables and flows, as multipart messages have them (Section 7.3.5).

use crate::flows::{Flow, aggregation};
use crate::limits::FORWARDING;
use crate::tables::{FlowTable, MAX_GROUPS};
use crate::time::Millis;
use crate::wire::ofp::{action, instruction};
use crate::wire::{FIELDS, Field, Put, write_duration};

/// Types of actions that flows of tables that forward can have.
const ACTIONS: [u16; 13] = [
    action::OUTPUT,
    action::COPY_TTL_OUT,
    action::COPY_TTL_IN,
    action::SET_MPLS_TTL,
    action::DEC_MPLS_TTL,
    action::PUSH_VLAN,
    action::POP_VLAN,
    action::PUSH_MPLS,
    action::POP_MPLS,
    action::GROUP,
    action::SET_NW_TTL,
    action::DEC_NW_TTL,
    action::SET_FIELD,
];

/// Builds an `ofp_flow_stats`.
pub(super) fn flow_stats(table: u8, flow: &Flow, now: Millis) -> Vec<u8> {
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
pub(super) fn table_stats(table: &FlowTable) -> Vec<u8> {
    let mut out = vec![table.number(), 0, 0, 0];
    let (looked_up, matched) = table.lookups();
    out.u32(table.len() as u32);
    out.u64(looked_up);
    out.u64(matched);
    out
}

/// Builds an `ofp_table_features`: the matches and actions that a table supports.
pub(super) fn table_features(table: &FlowTable) -> Vec<u8> {
    let (id, aggregates) = (table.number(), table.number() == aggregation::TABLE);
    let mut out = vec![0, 0, id, 0, 0, 0, 0, 0];
    let mut name = [0; 32];
    let text = if aggregates { "aggregation".to_owned() } else { format!("forwarding-{id}") };
    name[..text.len()].copy_from_slice(text.as_bytes());
    out.put(&name);
    // Metadata that can be matched, and that can be written.
    out.u64(if aggregates { 0 } else { u64::MAX });
    out.u64(if aggregates { 0xffff } else { u64::MAX });
    out.u32(0);
    out.u32(table.limit() as u32);
    // Types of instructions and actions are listed as headers of four bytes.
    let headers = |types: &[u16]| types.iter().map(|kind| u32::from(*kind) << 16 | 4).collect::<Vec<u32>>();
    let fields = |wanted: fn(Field) -> bool| FIELDS.into_iter().filter(move |field| wanted(*field));
    let plain = |wanted| fields(wanted).map(Field::header).collect::<Vec<u32>>();
    let masked = |field: Field| if field.maskable() { field.masked_header() } else { field.header() };
    let mut instructions = headers(&[
        instruction::WRITE_METADATA,
        instruction::WRITE_ACTIONS,
        instruction::APPLY_ACTIONS,
        instruction::CLEAR_ACTIONS,
    ]);
    if !aggregates {
        instructions.extend(headers(&[instruction::METER]));
    }
    let next: Vec<u8> = if aggregates { Vec::new() } else { (id + 1..FORWARDING).collect() };
    if !next.is_empty() {
        instructions.extend(headers(&[instruction::GOTO_TABLE]));
    }
    let (actions, matched, wildcards, set) = if aggregates {
        // Its action is an experimenter action, which a list of types can't identify; and its fields are matched as a whole.
        let matched = plain(|field| matches!(field, Field::VlanVid | Field::TunnelId));
        (Vec::new(), matched.clone(), matched, Vec::new())
    } else {
        (headers(&ACTIONS), fields(|_| true).map(masked).collect(), plain(|_| true), plain(Field::settable))
    };
    let bytes = |values: &[u32]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
    // Numbers of `ofp_table_feature_prop_type`. The properties for table misses are the same, and left out.
    let properties = [
        (0, bytes(&instructions)),
        (2, next),
        (4, bytes(&actions)),
        (6, bytes(&actions)),
        (8, bytes(&matched)),
        (10, bytes(&wildcards)),
        (12, bytes(&set)),
        (14, bytes(&set)),
    ];
    for (kind, values) in properties {
        let len = 4 + values.len();
        out.u16(kind);
        out.u16(len as u16);
        out.put(&values);
        out.zeros(len.next_multiple_of(8) - len);
    }
    let len = out.len() as u16;
    out[..2].copy_from_slice(&len.to_be_bytes());
    out
}

/// Builds an `ofp_group_features`: the abilities of each kind of group.
pub(super) fn group_features() -> Vec<u8> {
    let mut out = Vec::new();
    out.u32(0b1111);
    // Weights, and liveness; no groups in groups.
    out.u32(0b0011);
    (0..4).for_each(|_| out.u32(MAX_GROUPS as u32));
    let actions = ACTIONS.iter().fold(0u32, |bits, kind| bits | 1 << (*kind).min(31));
    (0..4).for_each(|_| out.u32(actions));
    out
}
