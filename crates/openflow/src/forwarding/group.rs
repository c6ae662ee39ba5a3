//! Groups as the data path needs them (Section 5.6): sets of actions for copies of a packet.

use super::counters::Tally;
use super::program::To;
use crate::flows::Action;

/// How a group chooses among its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the specification.
pub enum GroupKind {
    All = 0,
    Select = 1,
    Indirect = 2,
    FastFailover = 3,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// How it chooses.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Box<[Bucket]>,
    /// Where its packets are counted.
    pub tally: Tally,
}

/// A set of actions for a copy of a packet.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its share, in a group of kind `Select`.
    pub weight: u16,
    /// The port that must be live for it to be used, if there is one.
    pub watched: Option<u32>,
    /// Changes of the copy, in the order of an action set.
    pub changes: Box<[Action]>,
    /// Where the copy goes; nowhere, and it is dropped.
    pub to: Option<To>,
    /// Where its packets are counted.
    pub tally: Tally,
}

impl Group {
    /// Estimates its bytes, with those of its description.
    pub fn bytes(&self) -> usize {
        let actions = self.buckets.iter().map(|bucket| bucket.changes.len() + 1).sum::<usize>();
        size_of::<Group>() + self.buckets.len() * size_of::<Bucket>() + 2 * actions * size_of::<Action>()
    }

    /// Returns the buckets for a packet whose key has this hash. Buckets whose port is not live, as `is_live` reports, are not used.
    pub fn chosen(&self, hash: u64, is_live: impl Fn(u32) -> bool) -> impl Iterator<Item = &Bucket> {
        let is_usable = |bucket: &&Bucket| bucket.watched.is_none_or(&is_live);
        let only = match self.kind {
            GroupKind::All => None,
            GroupKind::Indirect => Some(self.buckets.first()),
            GroupKind::FastFailover => Some(self.buckets.iter().find(is_usable)),
            GroupKind::Select => {
                let usable = || self.buckets.iter().filter(is_usable);
                // Without any weights, all buckets are alike.
                let is_weighted = usable().any(|bucket| bucket.weight > 0);
                let weight = |bucket: &Bucket| if is_weighted { u64::from(bucket.weight) } else { 1 };
                let all: u64 = usable().map(weight).sum();
                // The upper half of the hash, as a fraction of all weights.
                let mut left = ((hash >> 32) * all) >> 32;
                Some(usable().find(|bucket| {
                    let is_it = left < weight(bucket);
                    left = left.saturating_sub(weight(bucket));
                    is_it
                }))
            }
        };
        let all = if only.is_none() { &self.buckets[..] } else { &[] };
        only.flatten().into_iter().chain(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::Counters;
    use std::sync::Arc;

    #[test]
    fn buckets_are_chosen_by_weight_and_link() {
        let counters = Arc::new(Counters::default());
        let tally = || Tally::new(&counters).unwrap();
        let bucket = |(weight, watched)| Bucket { weight, watched, changes: [].into(), to: None, tally: tally() };
        let group = |kind, buckets: &[(u16, Option<u32>)]| Group {
            kind,
            buckets: buckets.iter().copied().map(bucket).collect(),
            tally: tally(),
        };
        let weights = |group: &Group, hash: u64, down: u32| -> Vec<u16> {
            group.chosen(hash, |port| port != down).map(|bucket| bucket.weight).collect()
        };
        assert_eq!(weights(&group(GroupKind::All, &[(1, None), (2, None)]), 0, 0), [1, 2]);
        assert_eq!(weights(&group(GroupKind::Indirect, &[(1, None)]), 0, 0), [1]);
        let failover = group(GroupKind::FastFailover, &[(1, Some(1)), (2, Some(2))]);
        assert_eq!((weights(&failover, 0, 0), weights(&failover, 0, 1)), (vec![1], vec![2]));
        let select = group(GroupKind::Select, &[(0, None), (1, None), (3, Some(5))]);
        let shares = |down: u32| {
            let hashes = (0..4000u64).map(|hash| hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let chosen: Vec<u16> = hashes.flat_map(|hash| weights(&select, hash, down)).collect();
            [0, 1, 3].map(|weight| chosen.iter().filter(|chosen| **chosen == weight).count())
        };
        let [none, one, three] = shares(0);
        assert!(none == 0 && (900..1100).contains(&one) && one + three == 4000, "{none} {one} {three}");
        assert_eq!(shares(5), [0, 4000, 0]);
        assert_eq!(weights(&group(GroupKind::Select, &[]), 1, 0), []);
        let equal = group(GroupKind::Select, &[(0, Some(1)), (0, Some(2)), (0, None)]);
        let third = |hash: u64| equal.chosen(hash, |port| port != 2).next().map(|bucket| bucket.watched);
        assert_eq!([third(0), third(u64::MAX)], [Some(Some(1)), Some(None)], "weights may be left out");
    }
}
