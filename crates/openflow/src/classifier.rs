//! Finds the flow of highest priority for a key: one hash lookup per mask in use (tuple space search).

use crate::key::Key;
use crate::matching::Match;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Flows with one mask.
#[derive(Clone, Debug)]
struct Tuple<T> {
    mask: Key,
    /// By masked key: priorities and values, highest priority first.
    flows: HashMap<Key, Vec<(u16, T)>>,
    /// Number of flows by priority.
    priorities: BTreeMap<u16, usize>,
}

impl<T> Tuple<T> {
    fn highest(&self) -> u16 {
        self.priorities.last_key_value().map_or(0, |(priority, _)| *priority)
    }
}

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

impl<T> Classifier<T> {
    /// Creates an empty classifier.
    pub fn new() -> Self {
        Classifier { tuples: Vec::new() }
    }

    /// Looks up `key`. Of several matches of the highest priority, it finds any.
    pub fn lookup(&self, key: &Key) -> Lookup<'_, T> {
        let mut best: Option<&(u16, T)> = None;
        let mut consulted = Key::default();
        for tuple in &self.tuples {
            if best.is_some_and(|(priority, _)| *priority >= tuple.highest()) {
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

    /// Returns the same matches, with `make` applied to each value.
    pub fn map<U>(&self, mut make: impl FnMut(&T) -> U) -> Classifier<U> {
        let mut tuple = |tuple: &Tuple<T>| Tuple {
            mask: tuple.mask,
            flows: tuple
                .flows
                .iter()
                .map(|(key, flows)| (*key, flows.iter().map(|(priority, value)| (*priority, make(value))).collect()))
                .collect(),
            priorities: tuple.priorities.clone(),
        };
        Classifier { tuples: self.tuples.iter().map(&mut tuple).collect() }
    }

    /// Reports whether there are no matches.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Sets the value at a match and priority.
    pub fn insert(&mut self, at: &Match, priority: u16, value: T) {
        let index = self.tuples.iter().position(|tuple| tuple.mask == at.mask).unwrap_or_else(|| {
            self.tuples.push(Tuple { mask: at.mask, flows: HashMap::new(), priorities: BTreeMap::new() });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[index];
        let flows = tuple.flows.entry(at.value).or_default();
        match flows.binary_search_by_key(&Reverse(priority), |(other, _)| Reverse(*other)) {
            Ok(index) => flows[index].1 = value,
            Err(index) => {
                flows.insert(index, (priority, value));
                *tuple.priorities.entry(priority).or_default() += 1;
                self.sort();
            }
        }
    }

    /// Removes the value at a match and priority.
    pub fn remove(&mut self, at: &Match, priority: u16) -> Option<T> {
        let tuple = self.tuples.iter_mut().find(|tuple| tuple.mask == at.mask)?;
        let flows = tuple.flows.get_mut(&at.value)?;
        let index = flows.iter().position(|(other, _)| *other == priority)?;
        let (_, value) = flows.remove(index);
        if flows.is_empty() {
            tuple.flows.remove(&at.value);
        }
        if let Some(count) = tuple.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&priority);
            }
        }
        self.tuples.retain(|tuple| !tuple.flows.is_empty());
        self.sort();
        Some(value)
    }

    fn sort(&mut self) {
        self.tuples.sort_by_key(|tuple| Reverse(tuple.highest()));
    }
}

impl<T> Default for Classifier<T> {
    fn default() -> Self {
        Classifier::new()
    }
}
