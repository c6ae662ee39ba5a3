//! A bridge's MAC table: the port behind which an address was last seen. All workers share it without a lock.
//!
//! A bucket is one cache line of four entries, an entry two words: a key (address and VLAN) and a value (port, time), which
//! readers find together ([`handover::Pair`]). Writers exclude each other by a flag that they do not wait for: an address
//! that is not learned now is learned from its next frame.
//!
//! An address may be in one of two buckets, and goes into the one with more room. The table has room for twice as many
//! addresses as all ports together may have. An address is replaced only if it has not been seen for the ageing time: a guest
//! that invents sources fills only its own share.

mod entry;
mod spread;
#[cfg(test)]
mod tests;

pub use entry::Key;

use entry::{Entry, Value};
use packet::MacAddr;
use spread::Spread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Entries in a bucket.
const WAYS: usize = 4;

/// Maximum number of static addresses of a bridge.
pub const MOST_STATICS: usize = 4096;

/// Hash keys to try until all static addresses find room. More than one is rarely needed.
const KEYS: usize = 32;

/// Ports of a bridge that a value can tell apart.
const MOST_PORTS: usize = 1 << 16;

#[derive(Default)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

impl Bucket {
    /// Returns entries that are free, or whose address is too old.
    fn room(&self, now: u32, ageing: u32) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.get().is_none_or(|(_, value)| value.is_old(now, ageing)))
    }
}

/// Learning state of one port.
#[derive(Default)]
#[repr(align(64))]
struct Share {
    /// Current number of addresses. Changed by writers only.
    learned: AtomicU32,
    over_limit: AtomicU64,
    no_room: AtomicU64,
}

/// The table. Clones are one table: a bridge that changes goes on with that of the one before.
#[derive(Clone)]
pub struct MacTable {
    buckets: Arc<[Bucket]>,
    spread: Spread,
    writing: Arc<AtomicBool>,
    ageing_seconds: u32,
    /// Maximum number of addresses behind a port.
    limit: u32,
    /// By port of the bridge, for as many as there is room for.
    shares: Arc<[Share]>,
}

/// One entry, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Address.
    pub mac: MacAddr,
    /// VLAN.
    pub vlan: u16,
    /// Index of the port in its bridge.
    pub port: u16,
    /// Second in which it was last seen, or `None` if it is static.
    pub seen: Option<u32>,
}

/// Learning statistics of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Current number of addresses, without static ones.
    pub learned: u32,
    /// Maximum number of addresses.
    pub limit: u32,
    /// Frames whose source was not learned because the port had reached its limit.
    pub over_limit: u64,
    /// Frames whose source was not learned because its buckets were full.
    pub no_room: u64,
}

/// There are more static addresses than a table has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} static addresses are too many: a bridge has room for {MOST_STATICS}")]
pub struct TooManyStatics(pub usize);

impl MacTable {
    /// Returns a table of `ports` ports, with at most `limit` addresses learned behind each of them, and static ones.
    pub fn new(
        ports: usize,
        limit: u32,
        ageing_seconds: u32,
        statics: &[(Key, u16)],
    ) -> Result<MacTable, TooManyStatics> {
        MacTable::build(Spread::new, ports, limit, ageing_seconds, statics)
    }

    /// Returns a table with a known hash key, for reproducible measurements.
    pub fn with_known_key(ports: usize, limit: u32, ageing_seconds: u32) -> MacTable {
        MacTable::build(Spread::known, ports, limit, ageing_seconds, &[]).expect("it has no static addresses")
    }

    fn build(
        spread: impl Fn() -> Spread,
        ports: usize,
        limit: u32,
        ageing_seconds: u32,
        statics: &[(Key, u16)],
    ) -> Result<MacTable, TooManyStatics> {
        if statics.len() > MOST_STATICS {
            return Err(TooManyStatics(statics.len()));
        }
        let most = ports * limit as usize + statics.len();
        let buckets = (2 * most / WAYS).clamp(16, 1 << 31).next_power_of_two();
        // The buckets that rounding adds let more ports come.
        let room = (buckets * WAYS / 2).saturating_sub(statics.len()).checked_div(limit as usize).unwrap_or(ports);
        let tables = (0..KEYS).map(|_| MacTable {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            spread: spread(),
            writing: Arc::default(),
            ageing_seconds,
            limit,
            shares: (0..room.clamp(ports, MOST_PORTS.max(ports))).map(|_| Share::default()).collect(),
        });
        let fits = |table: &MacTable| statics.iter().all(|(key, port)| table.fix(*key, *port));
        tables.into_iter().find(fits).ok_or(TooManyStatics(statics.len()))
    }

    /// Returns the number of ports that it has room for.
    pub fn room(&self) -> usize {
        self.shares.len()
    }

    /// Reports whether this is the same table.
    pub fn is(&self, other: &MacTable) -> bool {
        Arc::ptr_eq(&self.buckets, &other.buckets)
    }

    /// Has the counters of `port` begin anew, as another port takes its place.
    pub fn begin(&self, port: u16) {
        let Share { learned: _, over_limit, no_room } = &self.shares[usize::from(port)];
        [over_limit, no_room].iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    #[inline(always)]
    fn buckets(&self, key: Key) -> [&Bucket; 2] {
        self.spread.buckets(key, self.buckets.len()).map(|bucket| &self.buckets[bucket])
    }

    #[inline(always)]
    fn read(&self, key: Key) -> Option<Value> {
        let [first, second] = self.buckets(key);
        let read = |bucket: &Bucket| bucket.0.iter().find_map(|entry| entry.read(key));
        read(first).or_else(|| read(second))
    }

    /// Returns the port of `key`, if it is known and not too old at `now`, in seconds.
    #[inline(always)]
    pub fn find(&self, key: Key, now: u32) -> Option<u16> {
        let value = self.read(key)?;
        (!value.is_old(now, self.ageing_seconds)).then(|| value.port())
    }

    /// Notes that `key` was seen behind `port` in second `now`, or counts that there is no room for it.
    #[inline(always)]
    pub fn learn(&self, key: Key, port: u16, now: u32) {
        let known = self.read(key);
        let fresh = known.is_some_and(|v| (v.port() == port && v.second() == now) || v.is_static());
        if !fresh {
            self.note(key, known.is_some(), port, now);
        }
    }

    #[cold]
    fn note(&self, key: Key, known: bool, port: u16, now: u32) {
        let share = &self.shares[usize::from(port)];
        // A guest that invents addresses beyond its limit must not keep other ports from writing either.
        if !known && !self.has_room(share) {
            share.over_limit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.writing.swap(true, Ordering::Acquire) {
            return;
        }
        self.place(key, port, now, share);
        self.writing.store(false, Ordering::Release);
    }

    fn has_room(&self, share: &Share) -> bool {
        share.learned.load(Ordering::Relaxed) < self.limit
    }

    /// Writes the entry of `key`, or a free one if it has none. Writers only.
    fn place(&self, key: Key, port: u16, now: u32, share: &Share) {
        let buckets = self.buckets(key);
        let own = buckets.iter().flat_map(|bucket| &bucket.0).find(|entry| entry.read(key).is_some());
        let had = own.and_then(|entry| entry.read(key));
        if had.is_some_and(Value::is_static) {
            return;
        }
        if had.is_none_or(|value| value.port() != port) && !self.has_room(share) {
            share.over_limit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(entry) = own.or_else(|| room(buckets, now, self.ageing_seconds)) else {
            share.no_room.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some((_, gone)) = entry.get() {
            self.count(gone.port(), -1);
        }
        entry.write(key, Value::seen(port, now));
        self.count(port, 1);
    }

    /// Writers only.
    fn count(&self, port: u16, change: i32) {
        let learned = &self.shares[usize::from(port)].learned;
        learned.store(learned.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// Adds `key` as a static address of `port`, if it finds room. Only before others see the table.
    fn fix(&self, key: Key, port: u16) -> bool {
        let buckets = self.buckets(key);
        let own = buckets.iter().flat_map(|bucket| &bucket.0).find(|entry| entry.read(key).is_some());
        let entry = own.or_else(|| room(buckets, 0, 0));
        entry.inspect(|entry| entry.write(key, Value::fixed(port))).is_some()
    }

    /// Forgets everything learned behind the ports that are `gone`, and leaves the rest as it is. Waits for writers; control side only.
    pub fn forget(&self, gone: &[u16]) {
        let learned = |port: &u16| self.shares[usize::from(*port)].learned.load(Ordering::Relaxed);
        self.as_writer(|| {
            // The table may be large, and most ports that leave have learned little or nothing.
            let mut left: u32 = gone.iter().map(learned).sum();
            let mut entries = self.buckets.iter().flat_map(|bucket| &bucket.0);
            while left > 0
                && let Some(entry) = entries.next()
            {
                let learned = entry.get().filter(|(_, value)| !value.is_static() && gone.contains(&value.port()));
                if let Some((_, value)) = learned {
                    self.count(value.port(), -1);
                    entry.clear();
                    left -= 1;
                }
            }
        });
    }

    /// Forgets everything learned behind ports that are `gone`, and entries that are too old at `now`. Waits for writers;
    /// control side only.
    pub fn sweep(&self, now: u32, gone: impl Fn(u16) -> bool) {
        self.as_writer(|| {
            // Most tables of most switches are empty most of the time.
            let has_learned = self.shares.iter().any(|share| share.learned.load(Ordering::Relaxed) > 0);
            for entry in self.buckets.iter().flat_map(|bucket| &bucket.0).take_while(|_| has_learned) {
                let Some((_, value)) = entry.get().filter(|(_, value)| !value.is_static()) else { continue };
                if value.is_old(now, self.ageing_seconds) || gone(value.port()) {
                    self.count(value.port(), -1);
                    entry.clear();
                }
            }
        });
    }

    /// Waits until nobody else writes, and keeps others from it meanwhile.
    fn as_writer(&self, act: impl FnOnce()) {
        // Workers write one entry at a time, and never wait meanwhile.
        while self.writing.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        act();
        self.writing.store(false, Ordering::Release);
    }

    /// Returns all entries that are valid at `now`.
    pub fn entries(&self, now: u32) -> Vec<Learned> {
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.0).filter_map(Entry::get);
        let young = entries.filter(|(_, value)| !value.is_old(now, self.ageing_seconds));
        let show = |(key, value): (Key, Value)| {
            let (mac, vlan) = key.parts();
            Learned { mac, vlan, port: value.port(), seen: (!value.is_static()).then(|| value.second()) }
        };
        young.map(show).collect()
    }

    /// Adopts what `other` has learned behind ports that have a `place` here, except addresses that were seen here since, and those that
    /// a port has no room for. Others may learn in both tables meanwhile.
    pub fn adopt(&self, other: &MacTable, now: u32, place: impl Fn(u16) -> Option<u16>) {
        for Learned { mac, vlan, port, seen } in other.entries(now) {
            let (Some(port), Some(seen)) = (place(port), seen) else { continue };
            let (key, share) = (Key::of(mac, vlan), &self.shares[usize::from(port)]);
            let known = self.read(key);
            let is_news = known.is_none_or(|known| !known.is_static() && known.second() < seen);
            if is_news && self.has_room(share) {
                self.note(key, known.is_some(), port, seen);
            }
        }
    }

    /// Adds what `other` has counted for ports that have a `place` here. Nobody counts there any more.
    pub fn count_on_from(&self, other: &MacTable, place: impl Fn(u16) -> Option<u16>) {
        for (port, share) in (0..).zip(&*other.shares) {
            if let Some(own) = place(port).map(|port| &self.shares[usize::from(port)]) {
                own.over_limit.fetch_add(share.over_limit.load(Ordering::Relaxed), Ordering::Relaxed);
                own.no_room.fetch_add(share.no_room.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Returns the learning statistics of a port.
    pub fn learning(&self, port: u16) -> Learning {
        let share = &self.shares[usize::from(port)];
        Learning {
            learned: share.learned.load(Ordering::Relaxed),
            limit: self.limit,
            over_limit: share.over_limit.load(Ordering::Relaxed),
            no_room: share.no_room.load(Ordering::Relaxed),
        }
    }
}

/// Returns an entry for a new address, from the bucket with more room.
fn room(buckets: [&Bucket; 2], now: u32, ageing: u32) -> Option<&Entry> {
    let [first, second] = buckets.map(|bucket| bucket.room(now, ageing).count());
    buckets[usize::from(second > first)].room(now, ageing).next()
}
