//! A key and a value that readers find together, though a writer changes them one after the other: it first removes
//! the value, then writes the key, then the value; a reader compares the key before and after it reads the value. So a
//! value is never taken for another key's.

use crate::sync::{AtomicU64, Ordering};

/// No key, and no value.
const NONE: u64 = 0;

/// See the module. Keys and values are not zero.
#[derive(Default)]
pub struct Pair {
    key: AtomicU64,
    value: AtomicU64,
}

impl Pair {
    /// Returns the value, if this is the pair of `key`.
    #[inline(always)]
    pub fn read(&self, key: u64) -> Option<u64> {
        if self.key.load(Ordering::Acquire) != key {
            return None;
        }
        let value = self.value.load(Ordering::Acquire);
        (value != NONE && self.key.load(Ordering::Relaxed) == key).then_some(value)
    }

    /// Returns key and value, if there are any.
    #[inline]
    pub fn get(&self) -> Option<(u64, u64)> {
        let key = self.key.load(Ordering::Acquire);
        self.read(key).filter(|_| key != NONE).map(|value| (key, value))
    }

    /// Assigns the pair to `key`. Writers only, one at a time.
    #[inline]
    pub fn write(&self, key: u64, value: u64) {
        if self.key.load(Ordering::Relaxed) != key {
            self.value.store(NONE, Ordering::Release);
            // Release: a reader that sees the new key also sees that the old value is gone.
            self.key.store(key, Ordering::Release);
        }
        // Release: a reader that sees the value sees the key that it belongs to.
        self.value.store(value, Ordering::Release);
    }

    /// Empties the pair. Writers only, one at a time.
    #[inline]
    pub fn clear(&self) {
        self.value.store(NONE, Ordering::Release);
        self.key.store(NONE, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A pair that changes its key never gives one key the value of another. The key's value is ten times the key.
    fn a_value_belongs_to_its_key(write: fn(&Pair, u64, u64), read: fn(&Pair, u64) -> Option<u64>) {
        loom::model(move || {
            let pair = Arc::new(Pair::default());
            pair.write(1, 10);
            let writer = {
                let pair = pair.clone();
                thread::spawn(move || write(&pair, 2, 20))
            };
            for key in [1, 2] {
                if let Some(value) = read(&pair, key) {
                    assert_eq!(value, 10 * key, "a value belongs to its key");
                }
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn readers_see_a_consistent_pair() {
        a_value_belongs_to_its_key(Pair::write, Pair::read);
    }

    #[test]
    #[should_panic(expected = "a value belongs to its key")]
    fn a_writer_that_leaves_the_old_value_is_caught() {
        let write = |pair: &Pair, key, value| {
            pair.key.store(key, Ordering::Release);
            pair.value.store(value, Ordering::Release);
        };
        a_value_belongs_to_its_key(write, Pair::read);
    }

    #[test]
    #[should_panic(expected = "a value belongs to its key")]
    fn a_key_that_is_written_relaxed_is_caught() {
        let write = |pair: &Pair, key, value| {
            pair.value.store(NONE, Ordering::Release);
            pair.key.store(key, Ordering::Relaxed);
            pair.value.store(value, Ordering::Release);
        };
        a_value_belongs_to_its_key(write, Pair::read);
    }

    #[test]
    #[should_panic(expected = "a value belongs to its key")]
    fn a_reader_that_does_not_look_again_is_caught() {
        let read = |pair: &Pair, key| {
            let is_own = pair.key.load(Ordering::Acquire) == key;
            Some(pair.value.load(Ordering::Acquire)).filter(|value| is_own && *value != NONE)
        };
        a_value_belongs_to_its_key(Pair::write, read);
    }
}
