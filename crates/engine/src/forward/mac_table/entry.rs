//! An entry of the table: an address, and the port behind which it was seen.

use handover::Pair;
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

/// Location of an address: the port in bits 0..=15, static in bit 16, the second in which it was last seen in
/// the upper half. Bit 17 is set, so that no value is zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Value(u64);

const STATIC: u64 = 1 << 16;
const SOME: u64 = 1 << 17;

impl Value {
    /// Returns the value of an address seen behind `port` in `second`.
    pub(super) fn seen(port: u16, second: u32) -> Value {
        Value(u64::from(port) | SOME | u64::from(second) << 32)
    }

    /// Returns the value of a static address behind `port`.
    pub(super) fn fixed(port: u16) -> Value {
        Value(u64::from(port) | SOME | STATIC)
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
pub(super) struct Entry(Pair);

impl Entry {
    /// Returns the value, if this is the entry of `key`.
    #[inline(always)]
    pub(super) fn read(&self, key: Key) -> Option<Value> {
        self.0.read(key.0).map(Value)
    }

    /// Returns key and value, if the entry is valid.
    pub(super) fn get(&self) -> Option<(Key, Value)> {
        self.0.get().map(|(key, value)| (Key(key), Value(value)))
    }

    /// Assigns the entry to `key`. Writers only, one at a time.
    pub(super) fn write(&self, key: Key, value: Value) {
        self.0.write(key.0, value.0);
    }

    /// Empties the entry. Writers only, one at a time.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}
