//! A flow of a table, and its rule for workers.

use crate::flows::{Flow, Match};
use crate::forwarding::{Count, FlowId, Lane, Program, Rule, Slot};
use crate::time::Millis;
use std::sync::Arc;

/// A flow, and where workers count its packets.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub flow: Flow,
    pub slot: Arc<Slot>,
    /// All that was counted in the slot up to the last look, also for earlier flows.
    pub told: Count,
}

impl Entry {
    /// Returns what the data path needs of it.
    pub fn rule(&self, table: u8, id: FlowId) -> Rule {
        let Flow { matches, priority, cookie, instructions, .. } = &self.flow;
        Rule {
            flow: id,
            slot: self.slot.clone(),
            cookie: *cookie,
            table,
            is_miss: *priority == 0 && *matches == Match::any(),
            program: Program::from(instructions),
        }
    }

    /// Takes over what workers have counted since the last look. Returns the number of packets.
    pub fn look(&mut self, lanes: &[Arc<Lane>], now: Millis) -> u64 {
        let sum = self.slot.sum(lanes);
        let Count { packets, bytes } = sum.since(self.told);
        if packets > 0 {
            self.told = sum;
            self.flow.packets += packets;
            self.flow.bytes += bytes;
            self.flow.used = self.flow.used.max(now);
        }
        packets
    }
}
