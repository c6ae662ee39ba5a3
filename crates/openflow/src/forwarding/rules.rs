//! The flows as the data path needs them: their lookup, and their programs.

use super::classifier::{Classifier, Lookup};
use super::counters::Slot;
use super::group::Group;
use super::meter::Meter;
use super::pages::Pages;
use super::program::Program;
use crate::flows::Match;
use crate::keys::Key;
use crate::limits::{FORWARDING, MAX_BYTES, MAX_FLOWS, MAX_MASKS};
use rpds::HashTrieMapSync;
use std::sync::Arc;

/// A flow's identifier, never reused for another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

impl FlowId {
    /// No flow.
    pub const NONE: FlowId = FlowId(u64::MAX);
}

/// The part of a flow that the data path needs.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The flow's identifier.
    pub flow: FlowId,
    /// The place of its counters, which stays the same when its program changes.
    pub slot: Arc<Slot>,
    /// The controller's own mark.
    pub cookie: u64,
    /// The flow's table.
    pub table: u8,
    /// Whether it is the table-miss flow: all packets, priority 0.
    pub is_miss: bool,
    /// Its program.
    pub program: Program,
}

impl Rule {
    /// Estimates the bytes of its flow.
    pub fn bytes(&self) -> usize {
        Rule::bytes_of(&self.program)
    }

    /// Estimates the bytes of a flow with this program. The flow also has the instructions that the program is made from.
    pub fn bytes_of(program: &Program) -> usize {
        /// A flow without actions: with its rule, its places in maps, and its counters.
        const FLOW: usize = 1 << 10;
        FLOW + 2 * program.bytes()
    }
}

/// The rules of all tables. A clone is a snapshot for a thread that only looks up. It takes time in proportion to the number of
/// tables, and a change after it as much as one rule.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// By table.
    classifiers: Vec<Arc<Classifier<u32>>>,
    /// By slot.
    rules: Pages<Rule>,
    /// Number of rules in the tables that forward.
    len: usize,
    /// Number of rules in all tables, and estimated bytes of their flows and of groups.
    all: usize,
    bytes: usize,
    groups: HashTrieMapSync<u32, Arc<Group>>,
    meters: HashTrieMapSync<u32, Arc<Meter>>,
}

impl Rules {
    /// Returns the slot of the rule for a packet in a table, and the bits of its key that this depends on.
    #[inline]
    pub fn lookup(&self, table: u8, key: &Key) -> Lookup<'_, u32> {
        let nothing = Lookup { found: None, consulted: Key::default() };
        self.classifiers.get(usize::from(table)).map_or(nothing, |classifier| classifier.lookup(key))
    }

    /// Returns the rule in a slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&Rule> {
        self.rules.get(slot)
    }

    /// Reports whether there is room for another rule of a table, with this mask and this many bytes. `replaced` is the one that it replaces.
    pub fn has_room(&self, table: u8, mask: &Key, bytes: usize, replaced: Option<&Rule>) -> bool {
        let freed = replaced.map_or(0, Rule::bytes);
        let fits = self.bytes - freed + bytes <= MAX_BYTES;
        fits && (replaced.is_some() || self.all < MAX_FLOWS && self.has_room_for_mask(table, mask))
    }

    fn has_room_for_mask(&self, table: u8, mask: &Key) -> bool {
        let forwarding = self.classifiers.iter().take(usize::from(FORWARDING));
        table >= FORWARDING
            || forwarding.map(|classifier| classifier.masks()).sum::<usize>() < MAX_MASKS
            || self.classifiers.get(usize::from(table)).is_some_and(|classifier| classifier.has_mask(mask))
    }

    /// Reports whether flows may grow by this many bytes.
    pub fn may_grow(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= MAX_BYTES
    }

    /// Returns the group of this number.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id).map(|group| &**group)
    }

    /// Sets or removes the group of this number.
    pub fn set_group(&mut self, id: u32, group: Option<Arc<Group>>) {
        self.bytes -= self.group(id).map_or(0, Group::bytes);
        match group {
            Some(group) => {
                self.bytes += group.bytes();
                self.groups.insert_mut(id, group);
            }
            None => _ = self.groups.remove_mut(&id),
        }
    }

    /// Returns the meter of this number.
    pub fn meter(&self, id: u32) -> Option<&Meter> {
        self.meters.get(&id).map(|meter| &**meter)
    }

    /// Sets or removes the meter of this number.
    pub fn set_meter(&mut self, id: u32, meter: Option<Arc<Meter>>) {
        match meter {
            Some(meter) => self.meters.insert_mut(id, meter),
            None => _ = self.meters.remove_mut(&id),
        }
    }

    /// Returns the rule of a table with exactly this match and priority.
    pub fn exact(&self, table: u8, at: &Match, priority: u16) -> Option<&Rule> {
        self.get(*self.classifiers.get(usize::from(table))?.get(at, priority)?)
    }

    /// Returns the number of rules in the tables that forward.
    #[expect(clippy::len_without_is_empty)] // A table is empty, or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether a table has no rules.
    pub fn has_none(&self, table: u8) -> bool {
        self.classifiers.get(usize::from(table)).is_none_or(|classifier| classifier.is_empty())
    }

    /// Sets a table's rule for a match and priority; it replaces the former one.
    pub fn insert(&mut self, table: u8, at: &Match, priority: u16, rule: Rule) {
        let (table, slot) = (usize::from(table), rule.slot.index());
        if self.classifiers.len() <= table {
            self.classifiers.resize_with(table + 1, Arc::default);
        }
        let before = Arc::make_mut(&mut self.classifiers[table]).insert(at, priority, slot);
        match before {
            Some(before) => self.forget(before),
            None => {
                self.len += usize::from(table < usize::from(FORWARDING));
                self.all += 1;
            }
        }
        self.bytes += rule.bytes();
        self.rules.set(slot, Some(rule));
    }

    /// Removes the rule at a match and priority of a table.
    pub fn remove(&mut self, table: u8, at: &Match, priority: u16) {
        let Some(classifier) = self.classifiers.get_mut(usize::from(table)) else { return };
        if let Some(slot) = Arc::make_mut(classifier).remove(at, priority) {
            self.forget(slot);
            self.len -= usize::from(table < FORWARDING);
            self.all -= 1;
        }
    }

    /// Removes the rule in a slot.
    fn forget(&mut self, slot: u32) {
        self.bytes -= self.get(slot).map_or(0, Rule::bytes);
        self.rules.set(slot, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Action;
    use crate::forwarding::Counters;

    fn rule(counters: &Arc<Counters>, outputs: usize) -> Rule {
        let output = Action::Output { port: 1, max_len: 0 };
        Rule {
            flow: FlowId(1),
            slot: Arc::new(counters.slot().unwrap()),
            cookie: 0,
            table: 0,
            is_miss: false,
            program: Program::of(&vec![output; outputs]),
        }
    }

    #[test]
    fn bytes_are_those_of_the_rules_that_are_there() {
        let (counters, mut rules) = (Arc::new(Counters::default()), Rules::default());
        let (at, small, large) = (Match::any(), rule(&counters, 1), rule(&counters, 100));
        let sizes = [small.bytes(), large.bytes()];
        assert!(sizes[1] > sizes[0] + 100);
        rules.insert(0, &at, 1, small.clone());
        rules.insert(1, &at, 1, large);
        assert_eq!((rules.bytes, rules.all), (sizes[0] + sizes[1], 2));
        rules.insert(0, &at, 1, rule(&counters, 2));
        rules.insert(0, &at, 1, small);
        assert_eq!((rules.bytes, rules.all), (sizes[0] + sizes[1], 2), "it was replaced");
        let room = MAX_BYTES - rules.bytes;
        let has_room = |bytes, replaced| rules.has_room(0, &at.mask, bytes, replaced);
        assert!(has_room(room, None) && !has_room(room + 1, None));
        assert!(has_room(room + sizes[0], rules.exact(0, &at, 1)));
        rules.remove(0, &at, 1);
        rules.remove(1, &at, 1);
        assert_eq!((rules.bytes, rules.all), (0, 0));
    }
}
