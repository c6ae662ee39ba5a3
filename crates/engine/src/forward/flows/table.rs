//! The flow tables, as workers read them.

use super::path::Path;
use crate::counters::Counter;
use openflow::{Counters, FORWARDING, FlowId, Key, Lane, Program, Rule, Rules, Slot, To};
use std::sync::Arc;

/// One version of the tables. It never changes; another one replaces it.
pub(crate) struct Flows {
    /// Unique number of this version; cached results of other versions are void.
    pub(in crate::forward) serial: u64,
    pub(in crate::forward) rules: Rules,
    /// By table: the rule of packets without a flow.
    pub(in crate::forward) misses: Arc<[Rule]>,
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
    /// Returns the rule of packets that have come to no flow yet.
    pub(in crate::forward) fn no_flow(&self) -> &Rule {
        &self.misses[0]
    }

    #[inline(always)]
    pub(in crate::forward) fn rule(&self, slot: u32) -> &Rule {
        self.rules.get(slot).unwrap_or_else(|| self.miss(slot))
    }

    #[inline(always)]
    fn miss(&self, slot: u32) -> &Rule {
        let is_it = |miss: &&Rule| miss.slot.index() == slot;
        self.misses.iter().find(is_it).unwrap_or(&self.misses[0])
    }

    /// Searches for the path of packets with this key, which has the metadata that they have when they come to the table.
    pub(in crate::forward) fn search(&self, key: &Key, table: u8) -> Path {
        let mut path = Path::default();
        let (mut table, mut metadata) = (table, key.metadata());
        loop {
            let found = self.rules.lookup(table, &key.at(0, metadata)).found.copied();
            let slot = found.unwrap_or_else(|| self.misses[usize::from(table)].slot.index());
            path.push(slot);
            let program = &self.rule(slot).program;
            metadata = program.metadata_after(metadata);
            match program.next {
                Some(next) if path.is_full() || !program.keeps() => {
                    path.next = Some(next);
                    break;
                }
                Some(next) => table = next,
                None => break,
            }
        }
        path.settle(|slot| self.rule(slot));
        path
    }
}

/// All versions of the tables that workers may still use; control side only.
pub(super) struct Versions {
    pub(super) rules: Rules,
    standalone: bool,
    serial: u64,
    /// By table: the rules of packets without a flow, if table 0 drops them, and if it sends them where a learning bridge does.
    misses: [Arc<[Rule]>; 2],
    /// The last one is in force.
    kept: Vec<Arc<Flows>>,
}

impl Versions {
    pub(super) fn new(counters: &Arc<Counters>) -> Versions {
        let slot = |_| Arc::new(counters.slot().expect("these are the first ones"));
        let slots: Vec<Arc<Slot>> = (0..FORWARDING).map(slot).collect();
        let misses = [false, true].map(|as_a_bridge| misses(&slots, as_a_bridge));
        Versions { rules: Rules::default(), standalone: false, serial: 0, misses, kept: Vec::new() }
    }

    /// Sets the fail mode. Reports whether that changes the table.
    pub(super) fn prepare(&mut self, standalone: bool) -> bool {
        std::mem::replace(&mut self.standalone, standalone) != standalone
    }

    /// Returns the table of the present rules.
    pub(super) fn draw(&mut self) -> Flows {
        self.serial += 1;
        let as_a_bridge = self.standalone && self.rules.has_none(0);
        let misses = self.misses[usize::from(as_a_bridge)].clone();
        Flows { serial: self.serial, rules: self.rules.clone(), misses }
    }

    /// Returns how many packets found no flow in each table.
    pub(super) fn missed(&self, lanes: &[Arc<Lane>]) -> Vec<u64> {
        self.misses[0].iter().map(|miss| miss.slot.sum(lanes).packets).collect()
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

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

/// Returns the rules of packets without a flow, by table. Such packets are dropped, whatever earlier flows have written to their
/// action sets (Section 5.4).
fn misses(slots: &[Arc<Slot>], as_a_bridge: bool) -> Arc<[Rule]> {
    let miss = |(table, slot): (u8, &Arc<Slot>)| {
        let is_normal = table == 0 && as_a_bridge;
        let program = if is_normal { Program::single(To::Normal) } else { Program::drop() };
        Rule { flow: FlowId::NONE, slot: slot.clone(), cookie: u64::MAX, table, is_miss: false, program }
    };
    (0..).zip(slots).map(miss).collect()
}
