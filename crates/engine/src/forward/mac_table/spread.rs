//! The hash that assigns two buckets to an address, under a secret key.
//!
//! Guests choose their addresses. SipHash would take eight times the instructions on the path of a frame. Its additional
//! strength, that even an attacker who sees hashes cannot compute others, protects nothing here: the table has twice the room
//! that all ports may fill, so an address that is not learned does not reveal which others share its buckets.

use super::Key;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Half of the key, shared by all tables.
static SHARED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(secret()));

/// Returns a random number from the kernel, by which the standard library keys its hasher.
fn secret() -> u64 {
    RandomState::new().hash_one(())
}

/// A keyed hash.
#[derive(Clone)]
pub(super) struct Spread(SeedableRandomState);

impl Spread {
    /// Returns a hash with a new key.
    pub(super) fn new() -> Spread {
        Spread(SeedableRandomState::with_seed(secret(), &SHARED))
    }

    /// Returns a hash with a known key.
    pub(super) fn known() -> Spread {
        Spread(SeedableRandomState::with_seed(0, SharedSeed::global_fixed()))
    }

    /// Returns the two buckets of `key`, by number, among `count`: a power of two that fits into 32 bits. They may be the same.
    #[inline(always)]
    pub(super) fn buckets(&self, key: Key, count: usize) -> [usize; 2] {
        let hash = self.0.hash_one(key.0);
        [hash as usize & (count - 1), (hash >> 32) as usize & (count - 1)]
    }
}
