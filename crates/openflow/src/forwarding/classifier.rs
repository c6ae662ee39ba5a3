//! Finds the flow of highest priority for a key: one hash lookup per mask in use (tuple space search). After a change, all that it
//! did not touch is still shared with earlier snapshots.

use crate::flows::Match;
use crate::keys::Key;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use std::cmp::Reverse;

/// Flows with one mask.
#[derive(Clone, Debug)]
struct Tuple<T> {
    mask: Key,
    /// The highest priority.
    highest: u16,
    /// By masked key: priorities and values, highest priority first.
    flows: HashTrieMapSync<Key, Ranked<T>>,
    /// Number of flows by priority.
    priorities: RedBlackTreeMapSync<u16, usize>,
}

/// The flows with one mask and one masked key: nearly always a single one.
type Ranked<T> = Box<[(u16, T)]>;

/// A map from matches with priorities to values. A clone is a snapshot, for a thread that only looks up.
#[derive(Clone, Debug)]
pub struct Classifier<T> {
    /// Tuples in descending order of their highest priority.
    tuples: Vec<Tuple<T>>,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a, T> {
    /// The value of the match; `None` if nothing matches.
    pub found: Option<&'a T>,
    /// The bits of the key that the lookup depends on: any key with the same bits gets the same result.
    pub consulted: Key,
}

impl<T: Copy> Classifier<T> {
    /// Creates an empty classifier.
    pub fn new() -> Self {
        Classifier { tuples: Vec::new() }
    }

    /// Looks up `key`. Of several matches of the highest priority, it finds any.
    pub fn lookup(&self, key: &Key) -> Lookup<'_, T> {
        let mut best: Option<&(u16, T)> = None;
        let mut consulted = Key::default();
        for tuple in &self.tuples {
            if best.is_some_and(|(priority, _)| *priority >= tuple.highest) {
                break;
            }
            consulted = consulted.or(&tuple.mask);
            let candidate = tuple.flows.get(&key.and(&tuple.mask)).and_then(|flows| flows.first());
            if candidate.is_some_and(|(priority, _)| best.is_none_or(|(other, _)| priority > other)) {
                best = candidate;
            }
        }
        Lookup { found: best.map(|(_, value)| value), consulted }
    }

    /// Returns the value at exactly this match and priority.
    pub fn get(&self, at: &Match, priority: u16) -> Option<&T> {
        let flows = self.tuples.iter().find(|tuple| tuple.mask == at.mask)?.flows.get(&at.value)?;
        flows.iter().find(|(other, _)| *other == priority).map(|(_, value)| value)
    }

    /// Returns the number of masks.
    pub fn masks(&self) -> usize {
        self.tuples.len()
    }

    /// Reports whether a match has this mask.
    pub fn has_mask(&self, mask: &Key) -> bool {
        self.tuples.iter().any(|tuple| tuple.mask == *mask)
    }

    /// Reports whether there are no matches.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Sets the value at a match and priority, and returns the one before.
    pub fn insert(&mut self, at: &Match, priority: u16, value: T) -> Option<T> {
        let index = self.tuples.iter().position(|tuple| tuple.mask == at.mask).unwrap_or_else(|| {
            self.tuples.push(Tuple::new(at.mask));
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[index];
        let mut flows = tuple.flows.get(&at.value).map_or_else(Vec::new, |flows| flows.to_vec());
        let before = match flows.binary_search_by_key(&Reverse(priority), |(other, _)| Reverse(*other)) {
            Ok(index) => Some(std::mem::replace(&mut flows[index].1, value)),
            Err(index) => {
                flows.insert(index, (priority, value));
                tuple.count(priority, |count| count + 1);
                None
            }
        };
        tuple.flows.insert_mut(at.value, flows.into());
        self.settle(index);
        before
    }

    /// Removes the value at a match and priority.
    pub fn remove(&mut self, at: &Match, priority: u16) -> Option<T> {
        let index = self.tuples.iter().position(|tuple| tuple.mask == at.mask)?;
        let tuple = &mut self.tuples[index];
        let mut flows = tuple.flows.get(&at.value)?.to_vec();
        let (_, value) = flows.remove(flows.iter().position(|(other, _)| *other == priority)?);
        if flows.is_empty() {
            tuple.flows.remove_mut(&at.value);
        } else {
            tuple.flows.insert_mut(at.value, flows.into());
        }
        tuple.count(priority, |count| count - 1);
        self.settle(index);
        Some(value)
    }

    /// Brings a tuple that has changed to its place.
    fn settle(&mut self, index: usize) {
        let tuple = &mut self.tuples[index];
        if tuple.flows.is_empty() {
            self.tuples.remove(index);
            return;
        }
        let highest = tuple.priorities.last().map_or(0, |(priority, _)| *priority);
        if tuple.highest != highest || self.tuples.len() == index + 1 {
            self.tuples[index].highest = highest;
            self.tuples.sort_by_key(|tuple| Reverse(tuple.highest));
        }
    }
}

impl<T> Tuple<T> {
    fn new(mask: Key) -> Tuple<T> {
        let (flows, priorities) = (HashTrieMapSync::new_sync(), RedBlackTreeMapSync::new_sync());
        Tuple { mask, highest: 0, flows, priorities }
    }

    /// Changes the number of flows of a priority.
    fn count(&mut self, priority: u16, change: impl FnOnce(usize) -> usize) {
        match change(self.priorities.get(&priority).copied().unwrap_or(0)) {
            0 => {
                self.priorities.remove_mut(&priority);
            }
            count => self.priorities.insert_mut(priority, count),
        }
    }
}

impl<T: Copy> Default for Classifier<T> {
    fn default() -> Self {
        Classifier::new()
    }
}
