//! The flow table, as workers read it.

use crate::counters::Counter;
use openflow::{Counters, FlowId, Program, Rule, Rules, Slot, To};
use std::sync::Arc;

/// One version of the table. It never changes; another one replaces it.
pub(crate) struct Flows {
    /// Unique number of this version; cached results of other versions are void.
    pub(in crate::forward) serial: u64,
    pub(in crate::forward) rules: Rules,
    /// The rule of packets without a flow.
    pub(in crate::forward) miss: Rule,
}

/// Lookups of one worker, on separate cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(in crate::forward) struct Lookups {
    pub(in crate::forward) packets: Counter,
    /// Packets not found in the cache.
    pub(in crate::forward) searched: Counter,
}

impl Flows {
    /// Returns the rule in a slot.
    #[inline(always)]
    pub(in crate::forward) fn rule(&self, slot: u32) -> &Rule {
        self.rules.get(slot).unwrap_or(&self.miss)
    }
}

/// All versions of the table that workers may still use; control side only.
pub(super) struct Versions {
    pub(super) rules: Rules,
    standalone: bool,
    serial: u64,
    /// Counts packets without a flow.
    pub(super) missed: Arc<Slot>,
    /// The last one is in force.
    kept: Vec<Arc<Flows>>,
}

impl Versions {
    pub(super) fn new(counters: &Arc<Counters>) -> Versions {
        let missed = Arc::new(counters.slot().expect("it is the first one"));
        Versions { rules: Rules::default(), standalone: false, serial: 0, missed, kept: Vec::new() }
    }

    /// Sets the fail mode. Reports whether that changes the table.
    pub(super) fn prepare(&mut self, standalone: bool) -> bool {
        std::mem::replace(&mut self.standalone, standalone) != standalone
    }

    /// Returns the table of the present rules.
    pub(super) fn draw(&mut self) -> Flows {
        self.serial += 1;
        let as_a_bridge = self.standalone && self.rules.is_empty();
        let program = if as_a_bridge { Program::single(To::Normal) } else { Program::drop() };
        let miss = Rule { flow: FlowId::NONE, slot: self.missed.clone(), cookie: u64::MAX, is_miss: false, program };
        Flows { serial: self.serial, rules: self.rules.clone(), miss }
    }

    /// Keeps a table that is now in force, and frees those that no worker uses any more: here, and not on the path of a frame.
    pub(super) fn keep(&mut self, flows: Arc<Flows>) {
        self.kept.push(flows);
        self.free();
    }

    /// Frees tables that no worker uses any more.
    pub(super) fn free(&mut self) {
        self.kept.retain(|flows| flows.serial == self.serial || Arc::strong_count(flows) > 1);
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}
