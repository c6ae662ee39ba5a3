//! A flow table: adds, changes, selects and removes flows.

use super::entry::Entry;
use super::shared::Shared;
use crate::flows::{Filter, Flow, Instructions, Match, Removal, Removed};
use crate::forwarding::{FlowId, Lane, Program, Rule};
use crate::time::Millis;
use crate::wire::Error;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Whether the counters of a flow that is replaced or modified go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OldCounts {
    Keep,
    Reset,
}

/// A flow table.
#[derive(Debug)]
pub struct FlowTable {
    number: u8,
    flows: BTreeMap<FlowId, Entry>,
    limit: usize,
    version: u64,
    /// Packets that matched a flow, and packets that matched none.
    matched: u64,
    missed: u64,
}

impl FlowTable {
    /// Creates the table of this number, for at most `limit` flows.
    pub(crate) fn new(number: u8, limit: usize) -> FlowTable {
        FlowTable { number, flows: BTreeMap::new(), limit, version: 0, matched: 0, missed: 0 }
    }

    /// Returns its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the version, which changes whenever the result of a lookup may have changed. Results cached under another
    /// version are invalid.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a flow, if it still exists.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|entry| &entry.flow)
    }

    /// Returns all flows, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values().map(|entry| &entry.flow)
    }

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Reports whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the maximum number of flows.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Changes the maximum number of flows. Existing flows stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the number of packets that were looked up, and of those that matched a flow.
    pub fn lookups(&self) -> (u64, u64) {
        (self.matched + self.missed, self.matched)
    }

    /// Sets the number of packets that matched no flow since the switch started.
    pub fn set_missed(&mut self, missed: u64) {
        self.missed = missed;
    }

    /// Takes over the workers' counts: packets counted since the last look came `now`.
    pub(super) fn look(&mut self, lanes: &[Arc<Lane>], now: Millis) {
        self.matched += self.flows.values_mut().map(|entry| entry.look(lanes, now)).sum::<u64>();
    }

    /// Reports whether a flow of the same priority could match the same packet.
    pub(super) fn overlaps(&self, matches: &Match, priority: u16) -> bool {
        self.flows().any(|flow| flow.priority == priority && flow.matches.overlaps(matches))
    }

    /// Adds a flow, replacing one with the same match and priority, whose counters it takes over if these are kept.
    pub(super) fn add(&mut self, shared: &mut Shared, mut flow: Flow, counts: OldCounts) -> Result<(), Error> {
        let replaced = shared.rules.exact(self.number, &flow.matches, flow.priority);
        let before = replaced.map(|rule| rule.flow);
        let bytes = Rule::bytes_of(&Program::from(&flow.instructions));
        let is_full = before.is_none() && self.flows.len() >= self.limit;
        if is_full || !shared.rules.has_room(self.number, &flow.matches.mask, bytes, replaced) {
            return Err(Error::FlowTableFull);
        }
        let slot = Arc::new(shared.counters.slot().ok_or(Error::FlowTableFull)?);
        let lanes = shared.counters.lanes();
        if let Some(id) = before
            && let Some(mut before) = self.flows.remove(&id)
        {
            self.matched += before.look(&lanes, flow.created);
            if counts == OldCounts::Keep {
                (flow.packets, flow.bytes) = (before.flow.packets, before.flow.bytes);
            }
            shared.note(self.number, id, || Some(before));
        }
        let told = slot.sum(&lanes);
        let id = shared.flow_id();
        self.version += 1;
        let entry = Entry { flow, slot, told };
        shared.note(self.number, id, || None);
        shared.rules.insert(self.number, &entry.flow.matches, entry.flow.priority, entry.rule(self.number, id));
        self.flows.insert(id, entry);
        Ok(())
    }

    /// Returns the flows that `filter` selects.
    pub(crate) fn select(&self, filter: &Filter) -> impl Iterator<Item = &Flow> {
        self.flows().filter(|flow| filter.means(flow))
    }

    /// Returns a range of identifiers that includes all current flows and no later ones.
    pub(crate) fn ids(&self) -> Range<FlowId> {
        FlowId(0)..FlowId(self.flows.last_key_value().map_or(0, |(last, _)| last.0 + 1))
    }

    /// Returns the first flow in `range` that `filter` selects.
    pub(crate) fn first_of(&self, range: Range<FlowId>, filter: &Filter) -> Option<(FlowId, &Flow)> {
        self.flows.range(range).map(|(id, entry)| (*id, &entry.flow)).find(|(_, flow)| filter.means(flow))
    }

    /// Returns the identifiers of the flows that `filter` selects. It looks up one that is named exactly.
    fn meant(&self, shared: &Shared, filter: &Filter) -> Vec<FlowId> {
        match filter.strict {
            Some(priority) => {
                let id = shared.rules.exact(self.number, &filter.matches, priority).map(|rule| rule.flow);
                id.filter(|id| self.get(*id).is_some_and(|flow| filter.means(flow))).into_iter().collect()
            }
            None => self.flows.iter().filter(|(_, entry)| filter.means(&entry.flow)).map(|(id, _)| *id).collect(),
        }
    }

    /// Replaces the instructions of the flows that `filter` selects.
    pub(super) fn modify(
        &mut self,
        shared: &mut Shared,
        filter: &Filter,
        instructions: &Instructions,
        counts: OldCounts,
    ) -> Result<(), Error> {
        let (lanes, meant) = (shared.counters.lanes(), self.meant(shared, filter));
        if !shared.rules.may_grow(meant.len().saturating_mul(2 * Program::from(instructions).bytes())) {
            return Err(Error::FlowTableFull);
        }
        for id in meant {
            let Some(entry) = self.flows.get_mut(&id) else { continue };
            if counts == OldCounts::Reset {
                self.matched += entry.look(&lanes, entry.flow.used);
            }
            shared.note(self.number, id, || Some(entry.clone()));
            entry.flow.instructions = instructions.clone();
            if counts == OldCounts::Reset {
                (entry.flow.packets, entry.flow.bytes) = (0, 0);
            }
            shared.rules.insert(self.number, &entry.flow.matches, entry.flow.priority, entry.rule(self.number, id));
            self.version += 1;
        }
        Ok(())
    }

    /// Removes flows, each for a reason. Returns them with their counts up to now.
    fn remove(&mut self, shared: &mut Shared, flows: Vec<(FlowId, Removal)>, now: Millis) -> Vec<Removed> {
        let lanes = shared.counters.lanes();
        let mut removed = Vec::with_capacity(flows.len());
        for (id, reason) in flows {
            let Some(mut entry) = self.flows.remove(&id) else { continue };
            self.matched += entry.look(&lanes, now);
            shared.rules.remove(self.number, &entry.flow.matches, entry.flow.priority);
            shared.note(self.number, id, || Some(entry.clone()));
            self.version += 1;
            removed.push(Removed { table: self.number, flow: entry.flow, reason });
        }
        removed
    }

    /// Undoes a change of a flow. Its rule must be as before already.
    pub(super) fn undo(&mut self, id: FlowId, before: Option<Box<Entry>>) {
        match before {
            Some(entry) => self.flows.insert(id, *entry),
            None => self.flows.remove(&id),
        };
        self.version += 1;
    }

    /// Removes the flows that `filter` selects.
    pub(super) fn delete(&mut self, shared: &mut Shared, filter: &Filter, now: Millis) -> Vec<Removed> {
        let meant = self.meant(shared, filter).into_iter().map(|id| (id, Removal::Delete)).collect();
        self.remove(shared, meant, now)
    }

    /// Removes the flows whose instructions are `meant`, for a reason.
    pub(super) fn delete_where(
        &mut self,
        shared: &mut Shared,
        meant: impl Fn(&Instructions) -> bool,
        reason: Removal,
        now: Millis,
    ) -> Vec<Removed> {
        let meant = self.flows.iter().filter(|(_, entry)| meant(&entry.flow.instructions));
        let meant = meant.map(|(id, _)| (*id, reason)).collect();
        self.remove(shared, meant, now)
    }

    /// Removes the flows that have expired.
    pub(super) fn expire(&mut self, shared: &mut Shared, now: Millis) -> Vec<Removed> {
        let over = |timeout: u16, since: Millis| timeout != 0 && now.saturating_sub(since) >= u64::from(timeout) * 1000;
        let end = |flow: &Flow| {
            if over(flow.hard_timeout, flow.created) {
                Some(Removal::HardTimeout)
            } else {
                over(flow.idle_timeout, flow.used).then_some(Removal::IdleTimeout)
            }
        };
        let ended = self.flows.iter().filter_map(|(id, entry)| Some((*id, end(&entry.flow)?))).collect();
        self.remove(shared, ended, now)
    }
}
