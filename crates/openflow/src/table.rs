//! A flow table: flows with their counters and timeouts, and the look-up of packets.

use crate::action::Action;
use crate::classifier::{Classifier, Lookup};
use crate::error::Error;
use crate::fields::Match;
use crate::instruction::Instructions;
use crate::key::Key;
use crate::ofp::port;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Milliseconds of a clock that never goes back; whoever calls brings the time.
pub type Millis = u64;

/// A flow's name: never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// A flow, as it was set and as it has fared.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Which packets it is for.
    pub matches: Match,
    /// Of several flows that match, the one of highest priority is taken.
    pub priority: u16,
    /// The controller's own mark.
    pub cookie: u64,
    /// Flags of the FLOW_MOD that added it.
    pub flags: u16,
    /// Seconds without a packet after which it ends; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0 for never.
    pub hard_timeout: u16,
    /// What it does.
    pub instructions: Instructions,
    /// When it was added.
    pub created: Millis,
    /// When its last packet came, or it was added.
    pub used: Millis,
    /// Packets that it was taken for.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// What the data path needs to know of a flow.
#[derive(Clone, Debug)]
pub struct Rule {
    /// For [`FlowTable::account`].
    pub flow: FlowId,
    /// The controller's own mark.
    pub cookie: u64,
    /// It is the table-miss flow: all packets, priority 0.
    pub is_miss: bool,
    /// What to do; nothing means to drop.
    pub actions: Arc<[Action]>,
}

impl Rule {
    fn of(id: FlowId, flow: &Flow) -> Rule {
        let is_miss = flow.priority == 0 && flow.matches == Match::any();
        Rule { flow: id, cookie: flow.cookie, is_miss, actions: flow.instructions.actions.clone() }
    }
}

/// Which flows a request means (Section 6.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub matches: Match,
    /// Only a flow of this priority and exactly this match.
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

/// Why a flow ended (Section 7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Removal {
    IdleTimeout = 0,
    HardTimeout = 1,
    Delete = 2,
}

/// Flows.
#[derive(Clone, Debug)]
pub struct FlowTable {
    flows: BTreeMap<FlowId, Flow>,
    rules: Classifier<Rule>,
    limit: usize,
    next: u64,
    version: u64,
    /// Packets looked up, and those of them that a flow was found for.
    pub(crate) looked_up: u64,
    pub(crate) found: u64,
}

impl FlowTable {
    /// A table for `limit` flows.
    pub fn new(limit: usize) -> FlowTable {
        let (flows, rules) = (BTreeMap::new(), Classifier::new());
        FlowTable { flows, rules, limit, next: 0, version: 0, looked_up: 0, found: 0 }
    }

    /// The flow for a packet, and the bits of its key that this depends on.
    pub fn lookup(&self, key: &Key) -> Lookup<'_, Rule> {
        self.rules.lookup(key)
    }

    /// Changes whenever the answer to a look-up may have changed. What was cached under another version is void.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A copy of the rules, for threads that look up while the table changes.
    pub fn snapshot(&self) -> Classifier<Rule> {
        self.rules.clone()
    }

    /// A flow, if it still exists.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// All flows, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// There are no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// How many flows there can be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Changes how many flows there can be. Those that there are stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Counts packets that the data path took a flow for, the last one at `used`. A flow that has ended is nobody's.
    pub fn account(&mut self, id: FlowId, packets: u64, bytes: u64, used: Millis) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.packets += packets;
            flow.bytes += bytes;
            flow.used = flow.used.max(used);
        }
    }

    /// Counts packets looked up, and those that a flow was found for, as statistics of the table.
    pub fn account_lookups(&mut self, looked_up: u64, found: u64) {
        self.looked_up += looked_up;
        self.found += found;
    }

    /// A flow of the same priority that could be meant by the same packet.
    pub(crate) fn overlaps(&self, matches: &Match, priority: u16) -> bool {
        self.flows.values().any(|flow| flow.priority == priority && flow.matches.overlaps(matches))
    }

    /// Adds a flow, in place of one with the same match and priority, whose counters it keeps if `keep_counters`.
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

    /// The flows that `filter` means.
    pub(crate) fn select(&self, filter: &Filter) -> impl Iterator<Item = &Flow> {
        self.flows.values().filter(|flow| filter.means(flow))
    }

    /// The names of all flows that there are, and of none that is added later.
    pub(crate) fn ids(&self) -> Range<FlowId> {
        FlowId(0)..FlowId(self.next)
    }

    /// The first flow in `range` that `filter` means.
    pub(crate) fn first_of(&self, range: Range<FlowId>, filter: &Filter) -> Option<(FlowId, &Flow)> {
        self.flows.range(range).find(|(_, flow)| filter.means(flow)).map(|(id, flow)| (*id, flow))
    }

    /// Gives new instructions to the flows that `filter` means.
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

    /// Removes the flows that `end` gives a reason for.
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

    /// Removes the flows that `filter` means.
    pub(crate) fn delete(&mut self, filter: &Filter) -> Vec<(Flow, Removal)> {
        self.remove(|flow| filter.means(flow).then_some(Removal::Delete))
    }

    /// Removes the flows whose time is over.
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
