//! Which two buckets an address may be in: a hash under a key that nobody outside knows.
//!
//! Guests choose their addresses. SipHash would take eight times the instructions of this one on the path of a frame. Its
//! further strength, that even who sees hashes can't compute others, has nothing to protect here: the table has twice the
//! room that all ports may fill, so nobody is told by an address that is not learned which others share its buckets.

use super::Key;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The half of the key that all tables share.
static SHARED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(secret()));

/// A number from the kernel's random ones, which are what the standard library's hasher is keyed by.
fn secret() -> u64 {
    RandomState::new().hash_one(())
}

/// A hash under a key of its own.
pub(super) struct Spread(SeedableRandomState);

impl Spread {
    /// One with a new key.
    pub(super) fn new() -> Spread {
        Spread(SeedableRandomState::with_seed(secret(), &SHARED))
    }

    /// One with a key that everybody knows.
    pub(super) fn known() -> Spread {
        Spread(SeedableRandomState::with_seed(0, SharedSeed::global_fixed()))
    }

    /// The two buckets of `key`, by number, among so many: a power of two that 32 bits can tell. They may be the same.
    #[inline(always)]
    pub(super) fn buckets(&self, key: Key, count: usize) -> [usize; 2] {
        let hash = self.0.hash_one(key.0);
        [hash as usize & (count - 1), (hash >> 32) as usize & (count - 1)]
    }
}
