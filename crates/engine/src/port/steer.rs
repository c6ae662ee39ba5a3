//! Rules for NICs: frames to a MAC address arrive in a queue.

use super::keys::{QUEUES, Section};
use packet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::{At, Field};
use std::ops::Range;

/// One `[[port.steer]]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline, extend("required" = ["mac", "queue"]))]
pub struct SteerKeys {
    /// Destination address of the frames.
    pub mac: Field<String>,
    /// Index of the queue.
    #[schemars(range(min = 0, max = QUEUES.end - 2))]
    pub queue: Field<i64>,
}

impl SteerKeys {
    /// Returns the rules for a port of `queues` queues.
    pub(super) fn build_all(rules: &[At<SteerKeys>], section: &mut Section<'_>, queues: u16) -> Vec<Steer> {
        rules.iter().filter_map(|at| at.build(section, &at.span, queues)).collect()
    }

    fn build(&self, section: &mut Section<'_>, table: &Range<usize>, queues: u16) -> Option<Steer> {
        let mac = section.required(table, "mac", &self.mac, "mac = \"02:00:00:00:00:01\"");
        let mac = mac.and_then(|at| section.unicast(at));
        section.required(table, "queue", &self.queue, "queue = 0")?;
        let queue = section.number("queue", &self.queue, &(0..queues.into()), 0);
        Some(Steer { mac: mac?, queue: queue as u16 })
    }
}

/// Rule for a NIC: frames to an address arrive in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steer {
    /// Destination of the frames.
    pub mac: MacAddr,
    /// Index of the queue.
    pub queue: u16,
}
