//! The fate of a part in a reload.

use foldhash::HashMap;
use std::hash::Hash;

/// Names of the differences that a part has.
pub(super) type Why = Vec<&'static str>;

/// The fate of a part that the new specification has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) enum Fate {
    /// It is new.
    Added,
    /// It stays, and differs in this. Nothing if nothing is named. `old` is its index in the old specification.
    Stays { old: usize, why: Why },
    /// It ends and begins anew for these differences.
    Reopened { old: usize, why: Why },
}

impl Fate {
    /// Returns the part of the old specification that goes on, by index.
    pub(in crate::switch) fn goes_on(&self) -> Option<usize> {
        match self {
            Fate::Stays { old, .. } => Some(*old),
            Fate::Added | Fate::Reopened { .. } => None,
        }
    }

    /// Returns the part of the old specification that this one was, by index.
    pub(in crate::switch) fn had(&self) -> Option<usize> {
        match self {
            Fate::Stays { old, .. } | Fate::Reopened { old, .. } => Some(*old),
            Fate::Added => None,
        }
    }

    /// Returns the part of the old specification that goes on as it is, by index.
    pub(in crate::switch) fn is_kept(&self) -> Option<usize> {
        match self {
            Fate::Stays { old, why } if why.is_empty() => Some(*old),
            _ => None,
        }
    }

    /// Returns the part of the old specification that ends, by index.
    fn ends(&self) -> Option<usize> {
        match self {
            Fate::Reopened { old, .. } => Some(*old),
            Fate::Added | Fate::Stays { .. } => None,
        }
    }
}

/// The fates of all parts of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) struct Fates {
    /// By index in the new specification.
    pub(in crate::switch) fates: Vec<Fate>,
    /// Parts that only the old specification has, by index.
    pub(in crate::switch) gone: Vec<usize>,
}

impl Fates {
    /// Compares parts that have the same key, which no other part of their specification has. `compare` returns why one cannot go
    /// on as it is, and whether it has to end for that.
    pub(super) fn of<'s, T, K: Eq + Hash>(
        old: &'s [T],
        new: &'s [T],
        key: impl Fn(&'s T) -> K,
        compare: impl Fn(&'s T, &'s T) -> Outcome,
    ) -> Fates {
        let mut had: HashMap<K, usize> = old.iter().enumerate().rev().map(|(index, part)| (key(part), index)).collect();
        let fate = |part: &'s T| match had.remove(&key(part)) {
            None => Fate::Added,
            Some(index) => match compare(&old[index], part) {
                Outcome::Stays(why) => Fate::Stays { old: index, why },
                Outcome::Ends(why) => Fate::Reopened { old: index, why },
            },
        };
        let fates = new.iter().map(fate).collect();
        let mut gone: Vec<usize> = had.into_values().collect();
        gone.sort_unstable();
        Fates { fates, gone }
    }

    /// Reports whether any part is added, removed or differs.
    pub(in crate::switch) fn differ(&self) -> bool {
        !self.gone.is_empty() || self.fates.iter().any(|fate| fate.is_kept().is_none())
    }

    /// Returns the parts of the old specification that end, by index.
    pub(in crate::switch) fn ended(&self) -> impl Iterator<Item = usize> {
        self.fates.iter().filter_map(Fate::ends).chain(self.gone.iter().copied())
    }
}

/// The outcome of comparing a part with the one before: it stays, or ends and begins anew, for these differences.
pub(super) enum Outcome {
    Stays(Why),
    Ends(Why),
}

impl Outcome {
    /// Returns the outcome for a part that begins anew if it differs at all.
    pub(super) fn ends_if(why: Why) -> Outcome {
        if why.is_empty() { Outcome::Stays(why) } else { Outcome::Ends(why) }
    }
}

/// Returns the names whose condition holds.
pub(super) fn named(which: &[(&'static str, bool)]) -> Why {
    which.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name).collect()
}
