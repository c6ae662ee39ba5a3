//! An entry of the table: a key and a value that readers find together, though writers change them one after the other.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use packet::MacAddr;

/// An address in a VLAN: the address in bits 0..=47, as its bytes lie in a frame, the VLAN in bits 48..=59. Bit 63 is
/// set, so that no key is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub(super) u64);

impl Key {
    /// Returns the key of `address`, its first byte lowest, in `vlan`.
    #[inline(always)]
    pub fn new(address: u64, vlan: u16) -> Key {
        Key(address & 0xffff_ffff_ffff | u64::from(vlan & 0xfff) << 48 | 1 << 63)
    }

    /// Returns the key of `mac` in `vlan`.
    pub fn of(mac: MacAddr, vlan: u16) -> Key {
        let [a, b, c, d, e, f] = mac.0;
        Key::new(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), vlan)
    }

    /// Returns address and VLAN.
    pub fn parts(self) -> (MacAddr, u16) {
        let [a, b, c, d, e, f, ..] = self.0.to_le_bytes();
        (MacAddr([a, b, c, d, e, f]), (self.0 >> 48) as u16 & 0xfff)
    }
}

/// Location of an address: the port in bits 0..=15, static in bit 16, valid in bit 17, the second in which it was last
/// seen in the upper half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Value(u64);

const STATIC: u64 = 1 << 16;
const VALID: u64 = 1 << 17;

impl Value {
    const INVALID: Value = Value(0);

    /// Returns the value of an address seen behind `port` in `second`.
    pub(super) fn seen(port: u16, second: u32) -> Value {
        Value(u64::from(port) | VALID | u64::from(second) << 32)
    }

    /// Returns the value of a static address behind `port`.
    pub(super) fn fixed(port: u16) -> Value {
        Value(u64::from(port) | VALID | STATIC)
    }

    #[inline(always)]
    pub(super) fn port(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(super) fn second(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(super) fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }

    /// Reports whether it was learned, and last seen more than `ageing` seconds before `now`. Workers read the clock
    /// independently, so an entry may be from a second ahead of `now`.
    #[inline(always)]
    pub(super) fn is_old(self, now: u32, ageing: u32) -> bool {
        !self.is_static() && i64::from(now.wrapping_sub(self.second()) as i32) > i64::from(ageing)
    }
}

#[derive(Default)]
pub(super) struct Entry {
    key: AtomicU64,
    value: AtomicU64,
}

impl Entry {
    /// Returns the value, if this is the entry of `key`.
    #[inline(always)]
    pub(super) fn read(&self, key: Key) -> Option<Value> {
        if self.key.load(Ordering::Acquire) != key.0 {
            return None;
        }
        let value = Value(self.value.load(Ordering::Acquire));
        (value.0 & VALID != 0 && self.key.load(Ordering::Relaxed) == key.0).then_some(value)
    }

    /// Returns key and value, if the entry is valid.
    pub(super) fn get(&self) -> Option<(Key, Value)> {
        let key = Key(self.key.load(Ordering::Acquire));
        self.read(key).filter(|_| key.0 != 0).map(|value| (key, value))
    }

    /// Assigns the entry to `key`. Writers only, one at a time.
    pub(super) fn write(&self, key: Key, value: Value) {
        if self.key.load(Ordering::Relaxed) != key.0 {
            self.value.store(Value::INVALID.0, Ordering::Release);
            // Release: a reader that sees the new key also sees that the old value is gone.
            self.key.store(key.0, Ordering::Release);
        }
        // Release: a reader that sees the value sees the key that it belongs to.
        self.value.store(value.0, Ordering::Release);
    }

    /// Empties the entry. Writers only, one at a time.
    pub(super) fn clear(&self) {
        self.value.store(Value::INVALID.0, Ordering::Release);
        self.key.store(0, Ordering::Release);
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
            let (one, two) = (Key::of(MacAddr([1; 6]), 0), Key::of(MacAddr([2; 6]), 0));
            entry.write(one, Value::seen(1, 0));
            let writer = {
                let entry = entry.clone();
                thread::spawn(move || entry.write(two, Value::seen(2, 0)))
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
