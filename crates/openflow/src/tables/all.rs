//! All tables: those that forward, and the aggregation table behind them.

use super::groups::{GroupMod, Groups};
use super::meters::{MeterMod, Meters};
use super::shared::{Before, Shared};
use super::table::FlowTable;
use crate::flows::{Instructions, Known, Removal, Removed, aggregation};
use crate::forwarding::{Counters, Lookup, Rule, Rules};
use crate::keys::Key;
use crate::limits::FORWARDING;
use crate::time::Millis;
use crate::wire::ofp::TABLE_ALL;
use crate::wire::{Error, Ports};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum ratio of the bytes of a group to those of its description, which has 16 for a bucket and 8 for an action.
const GROWTH: usize = 16;

/// All tables.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<FlowTable>,
    shared: Shared,
}

impl Tables {
    /// Creates the tables: each that forwards for at most `flows` flows, the aggregation table for `chains`.
    pub(crate) fn new(flows: usize, chains: usize) -> Tables {
        let limit = |number| if number == aggregation::TABLE { chains } else { flows };
        let tables = (0..=aggregation::TABLE).map(|number| FlowTable::new(number, limit(number))).collect();
        Tables { tables, shared: Shared::default() }
    }

    /// Returns all tables, by their numbers.
    pub fn all(&self) -> &[FlowTable] {
        &self.tables
    }

    /// Returns the tables that forward, by their numbers.
    pub fn forwarding(&self) -> &[FlowTable] {
        &self.tables[..usize::from(FORWARDING)]
    }

    /// Returns the tables that forward, to set their limits.
    pub fn forwarding_mut(&mut self) -> &mut [FlowTable] {
        &mut self.tables[..usize::from(FORWARDING)]
    }

    /// Returns the aggregation table.
    pub fn aggregation(&self) -> &FlowTable {
        &self.tables[usize::from(aggregation::TABLE)]
    }

    /// Sets the next hops that flows of the aggregation table may name; `None` for any. Flows that are there stay.
    pub fn set_next_hops(&mut self, hops: Option<BTreeSet<u16>>) {
        self.shared.next_hops = hops;
    }

    /// Returns the tables that a request means by `id`; none if there is no such table.
    pub(crate) fn meant(&self, id: u8) -> &[FlowTable] {
        match id {
            TABLE_ALL => &self.tables,
            id => self.tables.get(usize::from(id)..=usize::from(id)).unwrap_or_default(),
        }
    }

    /// Returns the tables that a request means by `id`, and what they share.
    pub(super) fn meant_mut(&mut self, id: u8) -> (&mut [FlowTable], &mut Shared) {
        let tables = match id {
            TABLE_ALL => &mut self.tables[..],
            id => self.tables.get_mut(usize::from(id)..=usize::from(id)).unwrap_or_default(),
        };
        (tables, &mut self.shared)
    }

    /// Returns the version of the tables that forward, of the groups and of the meters: it changes whenever one of them does.
    pub fn version(&self) -> u64 {
        self.forwarding().iter().map(FlowTable::version).sum::<u64>()
            + self.shared.groups.version
            + self.shared.meters.version
    }

    /// Returns the rules, whose clones are for threads that look up while the tables change.
    pub fn rules(&self) -> &Rules {
        &self.shared.rules
    }

    /// Returns the rule for a packet in a table, and the bits of its key that this depends on.
    pub fn lookup(&self, table: u8, key: &Key) -> Lookup<'_, Rule> {
        let Lookup { found, consulted } = self.rules().lookup(table, key);
        Lookup { found: found.and_then(|slot| self.rules().get(*slot)), consulted }
    }

    /// Returns the groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.shared.groups
    }

    /// Changes groups. Outputs must go to one of the `ports`. Returns the flows that are removed with their groups.
    pub(crate) fn change_groups(
        &mut self,
        change: GroupMod<'_>,
        ports: &Ports,
        now: Millis,
    ) -> Result<Vec<Removed>, Error> {
        let Shared { groups, rules, counters, .. } = &mut self.shared;
        let deleted = match change {
            GroupMod::Set(set) => {
                let known = Known { ports, groups: &(), meters: &() };
                // A description takes less than the group that it makes.
                if !rules.may_grow(GROWTH * set.buckets.0.len()) {
                    return Err(Error::GroupsFull);
                }
                rules.set_group(set.id, Some(groups.set(set, known, counters, now)?));
                return Ok(Vec::new());
            }
            GroupMod::Delete(wanted) => groups.delete(wanted),
        };
        deleted.iter().for_each(|id| rules.set_group(*id, None));
        let uses = |instructions: &Instructions| instructions.groups().any(|id| deleted.contains(&id));
        Ok(self.delete_where(uses, Removal::GroupDelete, now))
    }

    /// Returns the meters.
    pub(crate) fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// Changes meters. Returns the flows that are removed with their meters.
    pub(crate) fn change_meters(&mut self, change: MeterMod<'_>, now: Millis) -> Result<Vec<Removed>, Error> {
        let Shared { meters, rules, counters, .. } = &mut self.shared;
        let deleted = match change {
            MeterMod::Set(set) => {
                rules.set_meter(set.id, Some(meters.set(set, counters, now)?));
                return Ok(Vec::new());
            }
            MeterMod::Delete(wanted) => meters.delete(wanted),
        };
        deleted.iter().for_each(|id| rules.set_meter(*id, None));
        let uses = |instructions: &Instructions| instructions.meter.is_some_and(|id| deleted.contains(&id));
        Ok(self.delete_where(uses, Removal::Delete, now))
    }

    /// Returns the number of flows.
    pub(crate) fn flows(&self) -> usize {
        self.tables.iter().map(FlowTable::len).sum()
    }

    /// Begins a bundle of changes. [`Self::commit`] ends it, and so does [`Self::roll_back`], which takes the result.
    pub(crate) fn begin(&mut self) -> Before {
        self.shared.begin()
    }

    /// Ends a bundle.
    pub(crate) fn commit(&mut self) {
        self.shared.commit();
    }

    /// Ends a bundle, and undoes its changes.
    pub(crate) fn roll_back(&mut self, before: Before) {
        for ((table, id), flow) in self.shared.roll_back(before) {
            self.tables[usize::from(table)].undo(id, flow);
        }
    }

    /// Removes the flows whose instructions are `meant` from the tables that forward, for a reason.
    fn delete_where(&mut self, meant: impl Fn(&Instructions) -> bool, reason: Removal, now: Millis) -> Vec<Removed> {
        let tables = self.tables[..usize::from(FORWARDING)].iter_mut();
        tables.flat_map(|table| table.delete_where(&mut self.shared, &meant, reason, now)).collect()
    }

    /// Removes expired flows, and returns them.
    pub(crate) fn expire(&mut self, now: Millis) -> Vec<Removed> {
        self.tables.iter_mut().flat_map(|table| table.expire(&mut self.shared, now)).collect()
    }

    /// Takes the counters of flows from a data path. Call it before the first flow is added.
    pub fn count_in(&mut self, counters: Arc<Counters>) {
        debug_assert!(self.tables.iter().all(FlowTable::is_empty), "flows have slots in other counters");
        self.shared.counters = counters;
    }

    /// Returns the counters of flows.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Takes over the workers' counts: packets counted since the last look came `now`. This takes time in proportion to the number of
    /// flows.
    pub fn look(&mut self, now: Millis) {
        let lanes = self.shared.counters.lanes();
        self.forwarding_mut().iter_mut().for_each(|table| table.look(&lanes, now));
    }
}
