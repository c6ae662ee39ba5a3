//! A flow table: flows with their counters and timeouts, and the lookup of packets.

use crate::action::Action;
use crate::classifier::{Classifier, Lookup};
use crate::error::Error;
use crate::instruction::Instructions;
use crate::key::Key;
use crate::matching::Match;
use crate::ofp::port;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Milliseconds of a monotonic clock; callers pass the time.
pub type Millis = u64;

/// A flow's identifier, never reused for another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// A flow, with its counters and times.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The packets that it applies to.
    pub matches: Match,
    /// Its priority: of several flows that match, the highest one applies.
    pub priority: u16,
    /// The controller's own mark.
    pub cookie: u64,
    /// Flags of the FLOW_MOD that added it.
    pub flags: u16,
    /// Seconds without a packet after which it expires; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it expires; 0 for never.
    pub hard_timeout: u16,
    /// Its instructions.
    pub instructions: Instructions,
    /// Time at which it was added.
    pub created: Millis,
    /// Time of its last packet; before the first one, the time at which it was added.
    pub used: Millis,
    /// Number of packets that it was applied to.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// The part of a flow that the data path needs.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The flow's identifier, for [`FlowTable::account`].
    pub flow: FlowId,
    /// The controller's own mark.
    pub cookie: u64,
    /// Whether it is the table-miss flow: all packets, priority 0.
    pub is_miss: bool,
    /// The actions; an empty list drops the packet.
    pub actions: Arc<[Action]>,
}

impl Rule {
    fn of(id: FlowId, flow: &Flow) -> Rule {
        let is_miss = flow.priority == 0 && flow.matches == Match::any();
        Rule { flow: id, cookie: flow.cookie, is_miss, actions: flow.instructions.actions.clone() }
    }
}

/// The flows that a request selects (Section 6.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub matches: Match,
    /// Priority, if only the flow of this priority and exactly this match is selected.
    pub strict: Option<u16>,
    pub cookie: u64,
    pub cookie_mask: u64,
    pub out_port: u32,
    pub out_group: u32,
}

impl Filter {
    fn means(&self, flow: &Flow) -> bool {
        let matches = match self.strict {
            Some(priority) => flow.priority == priority && flow.matches == self.matches,
            None => flow.matches.is_within(&self.matches),
        };
        matches
            && (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == port::ANY || flow.instructions.sends_to(self.out_port))
            && self.out_group == port::ANY
    }
}

/// The reason why a flow was removed (Section 7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Removal {
    IdleTimeout = 0,
    HardTimeout = 1,
    Delete = 2,
}

/// A flow table.
#[derive(Clone, Debug)]
pub struct FlowTable {
    flows: BTreeMap<FlowId, Flow>,
    rules: Classifier<Rule>,
    limit: usize,
    next: u64,
    version: u64,
    /// Packets looked up, and those of them that matched a flow.
    pub(crate) looked_up: u64,
    pub(crate) found: u64,
}

impl FlowTable {
    /// Creates a table for at most `limit` flows.
    pub fn new(limit: usize) -> FlowTable {
        let (flows, rules) = (BTreeMap::new(), Classifier::new());
        FlowTable { flows, rules, limit, next: 0, version: 0, looked_up: 0, found: 0 }
    }

    /// Returns the flow for a packet, and the bits of its key that this depends on.
    pub fn lookup(&self, key: &Key) -> Lookup<'_, Rule> {
        self.rules.lookup(key)
    }

    /// Returns the version, which changes whenever the result of a lookup may have changed. Results cached under another
    /// version are invalid.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a copy of the rules, for threads that look up while the table changes.
    pub fn snapshot(&self) -> Classifier<Rule> {
        self.rules.clone()
    }

    /// Returns a flow, if it still exists.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// Returns all flows, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
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

    /// Counts packets that the data path applied a flow to, the last one at `used`. Ignores a flow that no longer exists.
    pub fn account(&mut self, id: FlowId, packets: u64, bytes: u64, used: Millis) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.packets += packets;
            flow.bytes += bytes;
            flow.used = flow.used.max(used);
        }
    }

    /// Counts packets looked up, and those of them that matched a flow, in the table's statistics.
    pub fn account_lookups(&mut self, looked_up: u64, found: u64) {
        self.looked_up += looked_up;
        self.found += found;
    }

    /// Reports whether a flow of the same priority could match the same packet.
    pub(crate) fn overlaps(&self, matches: &Match, priority: u16) -> bool {
        self.flows.values().any(|flow| flow.priority == priority && flow.matches.overlaps(matches))
    }

    /// Adds a flow, replacing one with the same match and priority, whose counters it takes over if `keep_counters`.
    pub(crate) fn add(&mut self, mut flow: Flow, keep_counters: bool) -> Result<(), Error> {
        let before = self.rules.get(&flow.matches, flow.priority).map(|rule| rule.flow);
        match before.and_then(|id| self.flows.remove(&id)) {
            Some(before) if keep_counters => (flow.packets, flow.bytes) = (before.packets, before.bytes),
            Some(_) => {}
            None if self.flows.len() >= self.limit => return Err(Error::FlowTableFull),
            None => {}
        }
        let id = FlowId(self.next);
        self.next += 1;
        self.version += 1;
        self.rules.insert(&flow.matches, flow.priority, Rule::of(id, &flow));
        self.flows.insert(id, flow);
        Ok(())
    }

    /// Returns the flows that `filter` selects.
    pub(crate) fn select(&self, filter: &Filter) -> impl Iterator<Item = &Flow> {
        self.flows.values().filter(|flow| filter.means(flow))
    }

    /// Returns a range of identifiers that includes all current flows and no later ones.
    pub(crate) fn ids(&self) -> Range<FlowId> {
        FlowId(0)..FlowId(self.next)
    }

    /// Returns the first flow in `range` that `filter` selects.
    pub(crate) fn first_of(&self, range: Range<FlowId>, filter: &Filter) -> Option<(FlowId, &Flow)> {
        self.flows.range(range).find(|(_, flow)| filter.means(flow)).map(|(id, flow)| (*id, flow))
    }

    /// Replaces the instructions of the flows that `filter` selects.
    pub(crate) fn modify(&mut self, filter: &Filter, instructions: &Instructions, reset_counters: bool) {
        for (id, flow) in self.flows.iter_mut().filter(|(_, flow)| filter.means(flow)) {
            flow.instructions = instructions.clone();
            if reset_counters {
                (flow.packets, flow.bytes) = (0, 0);
            }
            self.rules.insert(&flow.matches, flow.priority, Rule::of(*id, flow));
            self.version += 1;
        }
    }

    /// Removes the flows for which `end` returns a reason.
    fn remove(&mut self, mut end: impl FnMut(&Flow) -> Option<Removal>) -> Vec<(Flow, Removal)> {
        let ended: Vec<_> = self.flows.iter().filter_map(|(id, flow)| Some((*id, end(flow)?))).collect();
        let removed = ended.into_iter().filter_map(|(id, reason)| Some((self.flows.remove(&id)?, reason)));
        let removed: Vec<_> = removed.collect();
        for (flow, _) in &removed {
            self.rules.remove(&flow.matches, flow.priority);
            self.version += 1;
        }
        removed
    }

    /// Removes the flows that `filter` selects.
    pub(crate) fn delete(&mut self, filter: &Filter) -> Vec<(Flow, Removal)> {
        self.remove(|flow| filter.means(flow).then_some(Removal::Delete))
    }

    /// Removes the flows that have expired.
    pub(crate) fn expire(&mut self, now: Millis) -> Vec<(Flow, Removal)> {
        let over = |timeout: u16, since: Millis| timeout != 0 && now.saturating_sub(since) >= u64::from(timeout) * 1000;
        self.remove(|flow| {
            if over(flow.hard_timeout, flow.created) {
                Some(Removal::HardTimeout)
            } else {
                over(flow.idle_timeout, flow.used).then_some(Removal::IdleTimeout)
            }
        })
    }
}
