//! What all tables share, and how the changes of a bundle are undone.

use crate::counters::Counters;
use crate::flow::Entry;
use crate::groups::Groups;
use crate::meters::Meters;
use crate::rules::{FlowId, Rules};
use std::sync::Arc;

/// The rules, groups, meters and counters, which all tables share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub rules: Rules,
    pub groups: Groups,
    pub meters: Meters,
    pub counters: Arc<Counters>,
    /// The next flow's identifier.
    next: u64,
    /// The flows that have changed in a bundle, as they were before each change: table, identifier, flow.
    changed: Option<Vec<(u8, FlowId, Option<Entry>)>>,
}

/// What all tables share as it was before a bundle.
#[derive(Debug)]
pub(crate) struct Before {
    rules: Rules,
    groups: Groups,
    meters: Meters,
}

impl Shared {
    /// Returns an identifier for a new flow.
    pub fn flow_id(&mut self) -> FlowId {
        let id = FlowId(self.next);
        self.next += 1;
        id
    }

    /// Begins a bundle, whose changes can be undone.
    pub fn begin(&mut self) -> Before {
        self.changed = Some(Vec::new());
        Before { rules: self.rules.clone(), groups: self.groups.clone(), meters: self.meters.clone() }
    }

    /// Ends a bundle.
    pub fn commit(&mut self) {
        self.changed = None;
    }

    /// Ends a bundle and undoes its changes, except those of flows: returns these, the last one first.
    pub fn roll_back(&mut self, before: Before) -> impl Iterator<Item = (u8, FlowId, Option<Entry>)> + use<> {
        (self.rules, self.groups, self.meters) = (before.rules, before.groups, before.meters);
        self.changed.take().into_iter().flatten().rev()
    }

    /// Notes in a bundle that a flow changes.
    pub fn note(&mut self, table: u8, id: FlowId, before: impl FnOnce() -> Option<Entry>) {
        if let Some(changed) = &mut self.changed {
            changed.push((table, id, before()));
        }
    }
}
