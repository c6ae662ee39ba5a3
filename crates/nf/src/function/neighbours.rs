//! Neighbours that several workers know together.
//!
//! A worker looks a neighbour up in a table of its own, which is immutable and shares its entries with the tables of all
//! others: a MAC address that one worker learns is known to all. Only a neighbour that the worker's table does not have
//! takes the lock, and so do ARP messages.
//!
//! The words of an entry are independent, and no other memory depends on them: a worker that sees a new address and an old time, or
//! the other way round, uses an address that was right a moment ago, or asks once more. So all accesses are relaxed.

use super::routing::{AGAIN, ASKED, FRESH, NEIGHBOURS};
use crate::wire::MacAddr;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for which an address is used beyond its lifetime while its neighbour is asked again. A request costs a frame here,
/// and more frames would be lost until the reply.
const LINGER: Duration = Duration::from_secs(5);

/// A neighbour: its port and its address.
pub(super) type Key = (usize, Ipv4Addr);

/// Tells a worker how to treat a frame for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It sends the frame to this address.
    Known(MacAddr),
    /// It asks for the address. No other worker does.
    Ask,
    /// It drops the frame: a request is pending, or there are too many neighbours.
    Unknown,
}

/// Times are in milliseconds.
struct Entry {
    /// The address, below a bit that says that it is known; or [`FORGOTTEN`].
    mac: AtomicU64,
    /// When it was learned.
    since: AtomicU64,
    /// When it was last asked for, plus one; zero if never.
    asked: AtomicU64,
}

const KNOWN: u64 = 1 << 48;
/// The entry is in no newer table.
const FORGOTTEN: u64 = 1 << 49;

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

impl Entry {
    fn new() -> Entry {
        let zero = || AtomicU64::new(0);
        Entry { mac: zero(), since: zero(), asked: zero() }
    }

    /// Returns the address, if it is known and not older than `age`.
    #[inline]
    fn mac(&self, now: u64, age: Duration) -> Option<MacAddr> {
        let mac = self.mac.load(Ordering::Relaxed);
        let is_young = now.saturating_sub(self.since.load(Ordering::Relaxed)) < millis(age);
        let [0, 1, mac @ ..] = mac.to_be_bytes() else { return None };
        is_young.then_some(MacAddr(mac))
    }

    fn is_known(&self) -> bool {
        self.mac.load(Ordering::Relaxed) & KNOWN != 0
    }

    fn is_forgotten(&self) -> bool {
        self.mac.load(Ordering::Relaxed) == FORGOTTEN
    }

    fn is_asked(&self, now: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        asked > 0 && now.saturating_sub(asked - 1) < millis(AGAIN)
    }

    fn is_expired(&self, now: u64) -> bool {
        self.mac(now, FRESH).is_none() && !self.is_asked(now)
    }

    fn learn(&self, mac: MacAddr, now: u64) {
        let [a, b, c, d, e, f] = mac.0;
        self.mac.store(KNOWN | u64::from_be_bytes([0, 0, a, b, c, d, e, f]), Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
    }

    /// Decides about a frame, which can become a request if it `may_ask`.
    #[inline]
    fn answer(&self, now: u64, may_ask: bool) -> Answer {
        match self.mac(now, FRESH) {
            Some(mac) => Answer::Known(mac),
            None => self.answer_old(now, may_ask),
        }
    }

    #[cold]
    fn answer_old(&self, now: u64, may_ask: bool) -> Answer {
        let asked = self.asked.load(Ordering::Relaxed);
        let asks = may_ask
            && !self.is_asked(now)
            && self.asked.compare_exchange(asked, now + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match self.mac(now, FRESH + LINGER) {
            _ if asks => Answer::Ask,
            Some(mac) => Answer::Known(mac),
            None => Answer::Unknown,
        }
    }
}

type Table = HashMap<Key, Arc<Entry>>;

/// The neighbours of all workers.
#[derive(Default)]
pub(super) struct Neighbours {
    newest: Mutex<Arc<Table>>,
}

impl Neighbours {
    fn lock(&self) -> MutexGuard<'_, Arc<Table>> {
        // A table is whole at any time.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a neighbour's address if it was asked for: neither requests nor unsolicited replies can fill the table.
    pub(super) fn learn(&self, key: Key, mac: MacAddr, now: Duration) {
        if let Some(entry) = self.lock().get(&key) {
            entry.learn(mac, millis(now));
        }
    }

    /// Returns the newest table, with an entry for the neighbour if there is room.
    #[cold]
    fn with(&self, key: Key, now: u64) -> Arc<Table> {
        let mut newest = self.lock();
        if newest.contains_key(&key) {
            return newest.clone();
        }
        if !has_room(&newest) && newest.values().any(|entry| entry.is_expired(now)) {
            *newest = Arc::new(without_expired(&newest, now));
        }
        if has_room(&newest) {
            let mut table = Table::clone(&newest);
            table.insert(key, Arc::new(Entry::new()));
            *newest = Arc::new(table);
        }
        newest.clone()
    }
}

fn has_room(table: &Table) -> bool {
    let asked = table.values().filter(|entry| !entry.is_known()).count();
    asked < ASKED && table.len() < NEIGHBOURS
}

/// Returns a table without expired neighbours, which are marked as forgotten.
fn without_expired(table: &Table, now: u64) -> Table {
    let mut kept = Table::new();
    for (key, entry) in table {
        if entry.is_expired(now) {
            entry.mac.store(FORGOTTEN, Ordering::Relaxed);
        } else {
            kept.insert(*key, entry.clone());
        }
    }
    kept
}

/// The neighbours as one worker knows them.
pub(super) struct Acquaintances<'n> {
    all: &'n Neighbours,
    table: Arc<Table>,
}

impl<'n> Acquaintances<'n> {
    pub(super) fn new(all: &'n Neighbours) -> Acquaintances<'n> {
        Acquaintances { all, table: all.lock().clone() }
    }

    /// Decides about a frame for a neighbour. It can become a request if it `may_ask`.
    #[inline]
    pub(super) fn find(&mut self, key: Key, may_ask: bool, now: Duration) -> Answer {
        let now = millis(now);
        match self.table.get(&key) {
            Some(entry) if !entry.is_forgotten() => entry.answer(now, may_ask),
            _ => self.find_newer(key, may_ask, now),
        }
    }

    #[cold]
    fn find_newer(&mut self, key: Key, may_ask: bool, now: u64) -> Answer {
        self.table = self.all.with(key, now);
        self.table.get(&key).map_or(Answer::Unknown, |entry| entry.answer(now, may_ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const OTHER: MacAddr = MacAddr([0; 6]);

    fn key(number: u32) -> Key {
        (1, Ipv4Addr::from(number))
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_asks_and_all_learn() {
        let all = Neighbours::default();
        let [mut one, mut other] = [(); 2].map(|()| Acquaintances::new(&all));
        all.learn(key(1), MAC, at(0));
        assert_eq!(one.find(key(1), false, at(0)), Answer::Unknown, "nobody had asked for it");
        assert_eq!(one.find(key(1), true, at(0)), Answer::Ask);
        assert_eq!(other.find(key(1), true, at(0)), Answer::Unknown);
        assert_eq!(other.find(key(1), true, at(1)), Answer::Ask, "nobody has answered");
        all.learn(key(1), MAC, at(1));
        assert_eq!([&mut one, &mut other].map(|who| who.find(key(1), true, at(2))), [Answer::Known(MAC); 2]);
        all.learn(key(1), OTHER, at(3));
        assert_eq!([&mut one, &mut other].map(|who| who.find(key(1), true, at(3))), [Answer::Known(OTHER); 2]);
    }

    #[test]
    fn an_old_address_is_used_until_it_is_renewed_or_too_old() {
        let all = Neighbours::default();
        let mut one = Acquaintances::new(&all);
        assert_eq!(one.find(key(1), true, at(0)), Answer::Ask);
        all.learn(key(1), MAC, at(0));
        assert_eq!(one.find(key(1), true, at(299)), Answer::Known(MAC));
        assert_eq!(one.find(key(1), false, at(300)), Answer::Known(MAC));
        assert_eq!(one.find(key(1), true, at(300)), Answer::Ask);
        assert_eq!(one.find(key(1), true, at(300)), Answer::Known(MAC));
        assert_eq!(one.find(key(1), true, at(304)), Answer::Ask);
        assert_eq!(one.find(key(1), true, at(305)), Answer::Ask);
        assert_eq!(one.find(key(1), true, at(305)), Answer::Unknown);
    }

    #[test]
    fn neighbours_are_limited_and_forgotten() {
        let all = Neighbours::default();
        let [mut one, mut other] = [(); 2].map(|()| Acquaintances::new(&all));
        for number in 0..ASKED as u32 {
            assert_eq!(one.find(key(number), true, at(0)), Answer::Ask);
        }
        assert_eq!(one.find(key(1000), true, at(0)), Answer::Unknown, "too many requests are pending");
        all.learn(key(0), MAC, at(0));
        assert_eq!(one.find(key(1000), true, at(0)), Answer::Ask);
        // The other one forgets all that did not answer, and the first one notices.
        assert_eq!(other.find(key(2000), true, at(2)), Answer::Ask);
        assert_eq!(all.lock().len(), 2);
        assert_eq!(one.find(key(1), true, at(2)), Answer::Ask);
        all.learn(key(1), MAC, at(2));
        assert_eq!(one.find(key(1), true, at(2)), Answer::Known(MAC));
    }

    #[test]
    fn a_worker_finds_addresses_that_another_learned_first() {
        let all = Neighbours::default();
        let [mut one, mut other] = [(); 2].map(|()| Acquaintances::new(&all));
        assert_eq!(one.find(key(1), true, at(0)), Answer::Ask);
        all.learn(key(1), MAC, at(0));
        assert_eq!(other.find(key(1), true, at(0)), Answer::Known(MAC));
    }
}
