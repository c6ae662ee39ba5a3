//! Caches lookups by key, so that a repeated key costs one hash and one comparison.

use super::key::{COMMON, Key, NEIGHBOUR, WORDS};

/// Number of slots that a key can be in.
const WAYS: usize = 2;

/// A cache of lookup results by key. Bounded, evicts on collision, and never allocates after its creation; each thread has
/// its own. A result is valid for the table version that it was found in.
#[derive(Debug)]
pub struct Cache<K, V> {
    /// Pairs of slots; the front one was used last.
    slots: Box<[Pair<K, V>]>,
    seed: u64,
}

/// A key by which packets are told apart.
pub trait CacheKey: Copy {
    /// Returns a hash that only those who know the seed can predict.
    fn hash(&self, seed: u64) -> u64;

    /// Reports whether both are equal, without a call to memcmp.
    fn is(&self, other: &Self) -> bool;
}

type Pair<K, V> = [Option<Slot<K, V>>; WAYS];

#[derive(Clone, Copy, Debug)]
struct Slot<K, V> {
    key: K,
    version: u64,
    value: V,
}

impl<K: CacheKey, V: Copy> Cache<K, V> {
    /// Creates a cache for about `answers` results. `seed` should be random, so that nobody can choose packets that collide.
    pub fn new(answers: usize, seed: u64) -> Self {
        let pairs = answers.div_ceil(WAYS).next_power_of_two();
        Cache { slots: vec![[None; WAYS]; pairs].into(), seed }
    }

    #[inline(always)]
    fn index(&self, key: &K) -> usize {
        key.hash(self.seed) as usize & (self.slots.len() - 1)
    }

    /// Returns the result for `key` in this version of the table.
    #[inline]
    pub fn get(&mut self, key: &K, version: u64) -> Option<V> {
        let index = self.index(key);
        let [front, back] = &mut self.slots[index];
        let good = |slot: &Option<Slot<K, V>>| {
            slot.as_ref().filter(|slot| slot.version == version && slot.key.is(key)).map(|slot| slot.value)
        };
        good(front).or_else(|| {
            let value = good(back)?;
            std::mem::swap(front, back);
            Some(value)
        })
    }

    /// Stores the result for `key`, in place of the less recently used of its two slots.
    pub fn insert(&mut self, key: &K, version: u64, value: V) {
        let index = self.index(key);
        let pair = &mut self.slots[index];
        pair[1] = pair[0].replace(Slot { key: *key, version, value });
    }
}

/// Mixes two words by a folded multiplication, as wyhash does; `place` makes the words of one place differ from those of another.
#[inline(always)]
pub(super) fn mix(place: usize, a: u64, b: u64) -> u64 {
    const SECRETS: [u64; 6] = [
        0xa076_1d64_78bd_642f,
        0xe703_7ed1_a0b4_28db,
        0x8ebc_6af0_9c88_c6e3,
        0x5899_65cc_7537_4cc3,
        0x1d8e_4e27_c47d_124f,
        0xeb44_acca_b455_d165,
    ];
    let product = u128::from(a ^ SECRETS[place % 6]) * u128::from(b ^ SECRETS[(place + 1) % 6]);
    (product >> 64) as u64 ^ product as u64
}

impl CacheKey for Key {
    #[inline]
    fn hash(&self, seed: u64) -> u64 {
        let [w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12] = self.0;
        let mixed = mix(0, w0 ^ seed, w1)
            ^ mix(1, w2 ^ seed, w3)
            ^ mix(2, w4 ^ seed, w5)
            ^ mix(3, w6 ^ seed, w7)
            ^ mix(4, w8 ^ seed, w9);
        let mixed = match w8 & NEIGHBOUR {
            0 => mixed,
            _ => mixed ^ mix(5, w10 ^ seed, w11) ^ mix(6, w12 ^ seed, 0),
        };
        mix(7, mixed, seed)
    }

    #[inline]
    fn is(&self, other: &Key) -> bool {
        let differ = |from: usize, to: usize| {
            (from..to).fold(0, |difference, word| difference | (self.0[word] ^ other.0[word])) != 0
        };
        !differ(0, COMMON) && (self.0[8] & NEIGHBOUR == 0 || !differ(COMMON, WORDS))
    }
}
