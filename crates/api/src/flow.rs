//! Flows that controllers have set.

use crate::stats::DatapathStats;
use serde::{Deserialize, Serialize};

/// The answer to `flows`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flows {
    /// The bridge that forwards by flows, if there is one.
    pub datapath: Option<DatapathStats>,
    /// Flows of all tables, those of the highest priority first in each.
    pub flows: Vec<Flow>,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Table: 0 to 15 forward, 16 is the aggregation table.
    pub table: u8,
    /// Priority: the highest one of several matching flows wins.
    pub priority: u16,
    /// Matched packets, in `ovs-ofctl` syntax; `any` for all.
    pub matches: String,
    /// Instructions, in `ovs-ofctl` syntax; `drop` for none.
    pub actions: String,
    /// Cookie given by the controller.
    pub cookie: u64,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Seconds since it was set.
    pub age_seconds: f64,
    /// Seconds without a packet after which it expires; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it expires; 0 for never.
    pub hard_timeout: u16,
}
