//! A flow of a table, and its rule for workers.

use crate::flows::{Flow, Match};
use crate::forwarding::{Count, FlowId, Lane, Program, Rule, Slot};
use crate::time::Millis;
use std::sync::Arc;

/// A flow, and the slot in which workers count its packets.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub flow: Flow,
    pub slot: Arc<Slot>,
    /// The count of the slot at the last look, with the packets of earlier flows.
    pub told: Count,
}

impl Entry {
    /// Returns the part that the data path needs.
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

    /// Takes over the workers' counts since the last look. Returns the number of packets.
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
