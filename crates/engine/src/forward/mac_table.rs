//! A bridge's MAC table: which port an address was last seen behind. Shared by all workers without a lock.
//!
//! A bucket is one cache line of four entries, an entry two words: a key (address and VLAN) and a value (port, time).
//! Who changes the key of an entry first makes the value invalid, then writes the key, then the value; who reads
//! compares the key before and after the value. So a value is never taken for another key's. Writers exclude each
//! other by a flag that they do not wait for: what is not learned now is learned from the next frame.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Entries in a bucket.
const WAYS: usize = 4;

/// An address in a VLAN: the address in bits 0..=47, as its bytes lie in a frame, the VLAN in bits 48..=59. Bit 63 is
/// set, so that no key is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The key of an address, its first byte lowest, in `vlan`.
    #[inline(always)]
    pub fn new(address: u64, vlan: u16) -> Key {
        Key(address & 0xffff_ffff_ffff | u64::from(vlan & 0xfff) << 48 | 1 << 63)
    }

    /// The key of `mac` in `vlan`.
    pub fn of([a, b, c, d, e, f]: [u8; 6], vlan: u16) -> Key {
        Key::new(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), vlan)
    }

    /// Address and VLAN.
    pub fn parts(self) -> ([u8; 6], u16) {
        let [a, b, c, d, e, f, ..] = self.0.to_le_bytes();
        ([a, b, c, d, e, f], (self.0 >> 48) as u16 & 0xfff)
    }

    #[inline(always)]
    fn hash(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

/// What is known of an address: the port in bits 0..=15, static in bit 16, valid in bit 17, the second in which it was
/// last seen in the upper half.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Value(u64);

const STATIC: u64 = 1 << 16;
const VALID: u64 = 1 << 17;

impl Value {
    const INVALID: Value = Value(0);

    fn new(port: u16, fixed: bool, second: u32) -> Value {
        Value(u64::from(port) | if fixed { STATIC } else { 0 } | VALID | u64::from(second) << 32)
    }

    #[inline(always)]
    fn port(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    fn second(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
}

#[derive(Default)]
struct Entry {
    key: AtomicU64,
    value: AtomicU64,
}

impl Entry {
    /// The value, if this is the entry of `key`.
    #[inline(always)]
    fn read(&self, key: Key) -> Option<Value> {
        if self.key.load(Ordering::Acquire) != key.0 {
            return None;
        }
        let value = Value(self.value.load(Ordering::Acquire));
        (value.is(VALID) && self.key.load(Ordering::Relaxed) == key.0).then_some(value)
    }

    /// Takes the entry for `key`. Writers only.
    fn write(&self, key: Key, value: Value) {
        if self.key.load(Ordering::Relaxed) != key.0 {
            self.value.store(Value::INVALID.0, Ordering::Release);
            // Release: who sees the new key also sees that the old value is gone.
            self.key.store(key.0, Ordering::Release);
        }
        // Release: who sees the value sees the key that it belongs to.
        self.value.store(value.0, Ordering::Release);
    }

    fn clear(&self) {
        self.value.store(Value::INVALID.0, Ordering::Release);
        self.key.store(0, Ordering::Release);
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

/// The table.
pub struct MacTable {
    buckets: Box<[Bucket]>,
    writing: AtomicBool,
    ageing_seconds: u32,
}

/// One entry, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Address.
    pub mac: [u8; 6],
    /// VLAN.
    pub vlan: u16,
    /// Index of the port in its bridge.
    pub port: u16,
    /// Second in which it was last seen, or `None` if it is static.
    pub seen: Option<u32>,
}

impl MacTable {
    /// A table of `buckets` times four entries; `buckets` is rounded up to a power of two.
    pub fn new(buckets: usize, ageing_seconds: u32) -> MacTable {
        let buckets = (0..buckets.next_power_of_two()).map(|_| Bucket::default()).collect();
        MacTable { buckets, writing: AtomicBool::new(false), ageing_seconds }
    }

    #[inline(always)]
    fn bucket(&self, key: Key) -> &[Entry; WAYS] {
        &self.buckets[key.hash() & (self.buckets.len() - 1)].0
    }

    /// The port that `key` is behind, if that is known and not too old at `now`, in seconds.
    #[inline(always)]
    pub fn find(&self, key: Key, now: u32) -> Option<u16> {
        let value = self.bucket(key).iter().find_map(|e| e.read(key))?;
        let young = value.is(STATIC) || now.wrapping_sub(value.second()) <= self.ageing_seconds;
        young.then(|| value.port())
    }

    /// Notes that `key` was seen behind `port` in second `now`.
    #[inline(always)]
    pub fn learn(&self, key: Key, port: u16, now: u32) {
        let known = self.bucket(key).iter().find_map(|e| e.read(key));
        let fresh = known.is_some_and(|v| (v.port() == port && v.second() == now) || v.is(STATIC));
        if !fresh {
            self.insert(key, Value::new(port, false, now));
        }
    }

    /// Fixes `key` to `port` for ever.
    pub fn fix(&self, key: Key, port: u16) {
        while !self.insert(key, Value::new(port, true, 0)) {
            std::hint::spin_loop();
        }
    }

    /// Writes an entry, in the place of the oldest if the bucket is full; false if somebody else was writing or all
    /// entries are static.
    #[cold]
    fn insert(&self, key: Key, value: Value) -> bool {
        if self.writing.swap(true, Ordering::Acquire) {
            return false;
        }
        let bucket = self.bucket(key);
        let holds = |e: &&Entry| e.key.load(Ordering::Relaxed) == key.0;
        let age = |e: &Entry| match Value(e.value.load(Ordering::Relaxed)) {
            v if v.is(STATIC) => u32::MAX,
            v if v.is(VALID) => v.second(),
            _ => 0,
        };
        let oldest = bucket.iter().min_by_key(|e| age(e)).filter(|e| age(e) != u32::MAX);
        let place = bucket.iter().find(holds).or(oldest);
        place.inspect(|e| e.write(key, value));
        self.writing.store(false, Ordering::Release);
        place.is_some()
    }

    /// Forgets everything learned behind `port`, and what is too old at `now`. Waits for writers; control side only.
    pub fn sweep(&self, now: u32, gone: impl Fn(u16) -> bool) {
        while self.writing.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        for entry in self.buckets.iter().flat_map(|b| &b.0) {
            let value = Value(entry.value.load(Ordering::Relaxed));
            let old = now.wrapping_sub(value.second()) > self.ageing_seconds;
            if value.is(VALID) && !value.is(STATIC) && (old || gone(value.port())) {
                entry.clear();
            }
        }
        self.writing.store(false, Ordering::Release);
    }

    /// All entries that are valid at `now`.
    pub fn entries(&self, now: u32) -> Vec<Learned> {
        let entries = self.buckets.iter().flat_map(|b| &b.0);
        entries
            .filter_map(|e| {
                let key = Key(e.key.load(Ordering::Acquire));
                let value = e.read(key).filter(|_| key.0 != 0)?;
                let (mac, vlan) = key.parts();
                let seen = (!value.is(STATIC)).then(|| value.second());
                let young = seen.is_none_or(|s| now.wrapping_sub(s) <= self.ageing_seconds);
                young.then_some(Learned { mac, vlan, port: value.port(), seen })
            })
            .collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::of([2, 0, 0, 0, 0, n], 0)
    }

    #[test]
    fn addresses_are_learned_moved_and_forgotten() {
        let table = MacTable::new(16, 10);
        assert_eq!(table.find(key(1), 0), None);
        table.learn(key(1), 3, 100);
        assert_eq!(table.find(key(1), 110), Some(3));
        assert_eq!(table.find(key(1), 111), None, "too old");
        table.learn(key(1), 4, 111);
        assert_eq!(table.find(key(1), 111), Some(4), "moved");
        table.sweep(111, |port| port == 4);
        assert_eq!(table.find(key(1), 111), None);
    }

    #[test]
    fn vlans_do_not_see_each_other() {
        let table = MacTable::new(16, 10);
        table.learn(Key::of([2; 6], 10), 1, 0);
        assert_eq!(table.find(Key::of([2; 6], 20), 0), None);
        assert_eq!(table.entries(0), [Learned { mac: [2; 6], vlan: 10, port: 1, seen: Some(0) }]);
    }

    #[test]
    fn static_entries_stay() {
        let table = MacTable::new(1, 10);
        (0..4).for_each(|n| table.fix(key(n), n.into()));
        table.learn(key(9), 9, 5);
        assert_eq!(table.find(key(9), 5), None, "no room, and nothing static gave way");
        table.learn(key(2), 7, 5);
        table.sweep(1000, |_| true);
        assert_eq!(table.find(key(2), 1000), Some(2));
    }

    #[test]
    fn the_oldest_gives_way() {
        let table = MacTable::new(1, 1000);
        (0..4).for_each(|n| table.learn(key(n), n.into(), 10 + u32::from(n)));
        table.learn(key(0), 0, 20);
        table.learn(key(8), 8, 21);
        assert_eq!(table.find(key(1), 21), None);
        assert!([0, 2, 3, 8].iter().all(|&n| table.find(key(n), 21) == Some(n.into())));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// An entry that changes its key never gives one address the port of another.
    #[test]
    fn a_value_belongs_to_its_key() {
        loom::model(|| {
            let entry = Arc::new(Entry::default());
            let (one, two) = (Key::of([1; 6], 0), Key::of([2; 6], 0));
            entry.write(one, Value::new(1, false, 0));
            let writer = {
                let entry = entry.clone();
                thread::spawn(move || entry.write(two, Value::new(2, false, 0)))
            };
            for (key, port) in [(one, 1), (two, 2)] {
                if let Some(value) = entry.read(key) {
                    assert_eq!(value.port(), port);
                }
            }
            writer.join().unwrap();
        });
    }
}
