//! The state that all tables share, and the way back from a bundle that fails.

use super::entry::Entry;
use super::groups::Groups;
use super::meters::Meters;
use crate::forwarding::{Counters, FlowId, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rules, groups, meters and counters, which all tables share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub rules: Rules,
    pub groups: Groups,
    pub meters: Meters,
    pub counters: Arc<Counters>,
    /// Next hops that flows of the aggregation table may name; any, if they are not known.
    pub next_hops: Option<BTreeSet<u16>>,
    /// The next flow's identifier.
    next: u64,
    /// In a bundle: the flows that have changed.
    changed: Option<Changed>,
}

/// Flows by table and identifier, as they were before a bundle; new ones were not there.
pub(super) type Changed = BTreeMap<(u8, FlowId), Option<Box<Entry>>>;

/// The shared state as it was before a bundle.
#[derive(Debug)]
pub(crate) struct Before {
    rules: Rules,
    groups: Groups,
    meters: Meters,
}

impl Shared {
    /// Reports whether a flow of the aggregation table may name this next hop; zero stands for none.
    pub fn has_next_hop(&self, nfi: u16) -> bool {
        nfi == 0 || self.next_hops.as_ref().is_none_or(|hops| hops.contains(&nfi))
    }

    /// Returns an identifier for a new flow.
    pub fn flow_id(&mut self) -> FlowId {
        let id = FlowId(self.next);
        self.next += 1;
        id
    }

    /// Begins a bundle, whose changes can be undone.
    pub fn begin(&mut self) -> Before {
        self.changed = Some(BTreeMap::new());
        Before { rules: self.rules.clone(), groups: self.groups.clone(), meters: self.meters.clone() }
    }

    /// Ends a bundle.
    pub fn commit(&mut self) {
        self.changed = None;
    }

    /// Ends a bundle and undoes its changes, except those of flows: it returns them as they were before.
    pub fn roll_back(&mut self, before: Before) -> Changed {
        (self.rules, self.groups, self.meters) = (before.rules, before.groups, before.meters);
        self.changed.take().unwrap_or_default()
    }

    /// Notes in a bundle that a flow changes. `before` returns the flow without the change; `None` if it is new.
    pub fn note(&mut self, table: u8, id: FlowId, before: impl FnOnce() -> Option<Entry>) {
        if let Some(changed) = &mut self.changed {
            changed.entry((table, id)).or_insert_with(|| before().map(Box::new));
        }
    }
}
