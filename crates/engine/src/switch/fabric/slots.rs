//! The slots of a worker's plan: a thing keeps its slot as long as it is there, so that nothing else has to change with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeFrom;

/// Things of a plan, by key, each in a slot of its own.
pub(super) struct Slots<K, V> {
    things: BTreeMap<K, (usize, V)>,
    free: BTreeSet<usize>,
}

impl<K, V> Default for Slots<K, V> {
    fn default() -> Slots<K, V> {
        Slots { things: BTreeMap::new(), free: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone> Slots<K, V> {
    /// Returns the slot of a thing.
    pub(super) fn of(&self, key: &K) -> Option<usize> {
        self.things.get(key).map(|(slot, _)| *slot)
    }

    /// Returns a thing, with its slot.
    pub(super) fn get(&self, key: &K) -> Option<(usize, &V)> {
        self.things.get(key).map(|(slot, value)| (*slot, value))
    }

    /// Returns the things, each with its slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, usize, &V)> {
        self.things.iter().map(|(key, (slot, value))| (key, *slot, value))
    }

    /// Returns the keys of things from this one on.
    pub(super) fn range(&self, from: RangeFrom<K>) -> impl Iterator<Item = K> {
        self.things.range(from).map(|(key, _)| key.clone())
    }

    /// Makes these the things that there are. Returns the slots that are free now, and the keys of things that are new or differ.
    pub(super) fn follow(&mut self, wanted: &BTreeMap<K, V>) -> Steps<K> {
        let mut steps = Steps { freed: Vec::new(), added: Vec::new(), changed: Vec::new() };
        self.things.retain(|key, (slot, _)| {
            let stays = wanted.contains_key(key);
            if !stays {
                steps.freed.push(*slot);
            }
            stays
        });
        self.free.extend(&steps.freed);
        for (key, value) in wanted {
            match self.things.get_mut(key) {
                Some((_, had)) if had == value => {}
                Some((_, had)) => {
                    had.clone_from(value);
                    steps.changed.push(key.clone());
                }
                None => {
                    let slot = self.free.pop_first().unwrap_or(self.things.len());
                    self.things.insert(key.clone(), (slot, value.clone()));
                    steps.added.push(key.clone());
                }
            }
        }
        steps.freed.retain(|slot| self.free.contains(slot));
        steps
    }
}

/// Differences between the things that were there and those that are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Steps<K> {
    /// Slots that nothing stands in any more.
    pub(super) freed: Vec<usize>,
    pub(super) added: Vec<K>,
    pub(super) changed: Vec<K>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_that_stay_keep_their_slots() {
        let mut slots = Slots::default();
        let mut follow = |things: &[(&'static str, u32)]| {
            let steps = slots.follow(&things.iter().copied().collect());
            let at: Vec<_> = slots.iter().map(|(key, slot, _)| (*key, slot)).collect();
            (steps, at)
        };
        let steps = |freed: &[usize], added: &[&'static str], changed: &[&'static str]| Steps {
            freed: freed.into(),
            added: added.into(),
            changed: changed.into(),
        };
        assert_eq!(
            follow(&[("a", 0), ("b", 0), ("c", 0)]),
            (steps(&[], &["a", "b", "c"], &[]), vec![("a", 0), ("b", 1), ("c", 2)])
        );
        assert_eq!(follow(&[("a", 0), ("c", 1)]), (steps(&[1], &[], &["c"]), vec![("a", 0), ("c", 2)]));
        assert_eq!(follow(&[("a", 0), ("c", 1)]), (steps(&[], &[], &[]), vec![("a", 0), ("c", 2)]));
        // One takes the place of another in a single step.
        assert_eq!(
            follow(&[("c", 1), ("d", 0), ("e", 0)]),
            (steps(&[], &["d", "e"], &[]), vec![("c", 2), ("d", 0), ("e", 1)])
        );
        assert_eq!(follow(&[]), (steps(&[2, 0, 1], &[], &[]), vec![]));
    }
}
