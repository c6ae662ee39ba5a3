//! The flows that controllers have set, as people and scripts are shown them.

use engine::stats::DatapathStats;
use openflow::Millis;
use serde::{Deserialize, Serialize};

/// What `flows` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// The bridge that forwards by table 0; none if no bridge does.
    pub datapath: Option<DatapathStats>,
    /// All tables, those of the highest priority first in each.
    pub flows: Vec<Flow>,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Table: 0 forwards, 1 is the aggregation table.
    pub table: u8,
    /// Of several flows that match, the one of highest priority is taken.
    pub priority: u16,
    /// Which packets it is for, in the words of `ovs-ofctl`; `any` for all.
    pub matches: String,
    /// What it does, likewise; `drop` for nothing.
    pub actions: String,
    /// The controller's own mark.
    pub cookie: u64,
    /// Packets that it was taken for.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Seconds since it was set.
    pub age_seconds: f64,
    /// Seconds without a packet after which it ends; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0 for never.
    pub hard_timeout: u16,
}

impl Flow {
    /// A flow of a table, at time `now`.
    pub fn of(table: u8, flow: &openflow::Flow, now: Millis) -> Self {
        let actions: Vec<_> = flow.instructions.actions.iter().map(ToString::to_string).collect();
        Self {
            table,
            priority: flow.priority,
            matches: flow.matches.to_string(),
            actions: if actions.is_empty() { "drop".to_owned() } else { actions.join(",") },
            cookie: flow.cookie,
            packets: flow.packets,
            bytes: flow.bytes,
            age_seconds: now.saturating_sub(flow.created) as f64 / 1000.0,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
        }
    }
}
