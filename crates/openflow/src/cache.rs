//! Caches lookups by key, so that a repeated key costs one hash and one comparison.

use crate::key::{Key, NEIGHBOUR};

/// Slots that a key can be in.
const WAYS: usize = 2;

/// A cache of lookup results by key. Bounded, evicts on collision, and never allocates after its creation; each thread has
/// its own. A result is valid for the table version that it was found in.
#[derive(Debug)]
pub struct Cache<V> {
    /// Pairs of slots; the front one was used last.
    slots: Box<[[Option<Slot<V>>; WAYS]]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    key: Key,
    version: u64,
    value: V,
}

impl<V: Copy> Cache<V> {
    /// Creates a cache for about `answers` results. `seed` should be random, so that nobody can choose packets that collide.
    pub fn new(answers: usize, seed: u64) -> Self {
        let pairs = answers.div_ceil(WAYS).next_power_of_two();
        Cache { slots: vec![[None; WAYS]; pairs].into(), seed }
    }

    /// Hashes a key with one folded multiplication per word pair (as wyhash does).
    #[inline]
    fn index(&self, key: &Key) -> usize {
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        let [w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12] = key.0;
        const SECRETS: [u64; 5] = [
            0xa076_1d64_78bd_642f,
            0xe703_7ed1_a0b4_28db,
            0x8ebc_6af0_9c88_c6e3,
            0x5899_65cc_7537_4cc3,
            0x1d8e_4e27_c47d_124f,
        ];
        let seed = self.seed;
        let mixed = mix(w0 ^ SECRETS[0] ^ seed, w1 ^ SECRETS[1])
            ^ mix(w2 ^ SECRETS[1] ^ seed, w3 ^ SECRETS[2])
            ^ mix(w4 ^ SECRETS[2] ^ seed, w5 ^ SECRETS[3])
            ^ mix(w6 ^ SECRETS[3] ^ seed, w7 ^ SECRETS[4])
            ^ mix(w8 ^ SECRETS[4] ^ seed, w9 ^ SECRETS[0]);
        let mixed = match w8 & NEIGHBOUR {
            0 => mixed,
            _ => mixed ^ mix(w10 ^ SECRETS[0] ^ seed, w11 ^ SECRETS[2]) ^ mix(w12 ^ SECRETS[1] ^ seed, SECRETS[3]),
        };
        mix(mixed, SECRETS[4] ^ seed) as usize & (self.slots.len() - 1)
    }

    /// Returns the result for `key` in this version of the table.
    #[inline]
    pub fn get(&mut self, key: &Key, version: u64) -> Option<V> {
        let index = self.index(key);
        let [front, back] = &mut self.slots[index];
        let good = |slot: &Option<Slot<V>>| {
            slot.as_ref().filter(|slot| slot.version == version && slot.key.is(key)).map(|slot| slot.value)
        };
        good(front).or_else(|| {
            let value = good(back)?;
            std::mem::swap(front, back);
            Some(value)
        })
    }

    /// Stores the result for `key`, in place of the less recently used of its two slots.
    pub fn insert(&mut self, key: &Key, version: u64, value: V) {
        let index = self.index(key);
        let pair = &mut self.slots[index];
        pair[1] = pair[0].replace(Slot { key: *key, version, value });
    }
}
