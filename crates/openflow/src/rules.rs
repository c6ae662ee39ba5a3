//! The flows as the data path needs them: their lookup, and what they do.

use crate::classifier::{Classifier, Lookup};
use crate::counters::Slot;
use crate::key::Key;
use crate::matching::Match;
use crate::pages::Pages;
use crate::program::Program;
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
    /// Whether it is the table-miss flow: all packets, priority 0.
    pub is_miss: bool,
    /// Its program.
    pub program: Program,
}

/// The rules of a table. A clone is a snapshot for a thread that only looks up; it costs as much as the number of masks, and a
/// change after it as much as one rule.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    classifier: Classifier<u32>,
    rules: Pages<Rule>,
    len: usize,
}

impl Rules {
    /// Returns the slot of the rule for a packet, and the bits of its key that this depends on.
    #[inline]
    pub fn lookup(&self, key: &Key) -> Lookup<'_, u32> {
        self.classifier.lookup(key)
    }

    /// Returns the rule in a slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&Rule> {
        self.rules.get(slot)
    }

    /// Returns the rule with exactly this match and priority.
    pub fn exact(&self, at: &Match, priority: u16) -> Option<&Rule> {
        self.get(*self.classifier.get(at, priority)?)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the rule at a match and priority, in place of the one that is there.
    pub fn insert(&mut self, at: &Match, priority: u16, rule: Rule) {
        let slot = rule.slot.index();
        match self.classifier.insert(at, priority, slot) {
            Some(before) if before != slot => self.rules.set(before, None),
            Some(_) => {}
            None => self.len += 1,
        }
        self.rules.set(slot, Some(rule));
    }

    /// Removes the rule at a match and priority.
    pub fn remove(&mut self, at: &Match, priority: u16) {
        if let Some(slot) = self.classifier.remove(at, priority) {
            self.rules.set(slot, None);
            self.len -= 1;
        }
    }
}
