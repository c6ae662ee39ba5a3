//! The log of events. The newest ones are kept, and any number of followers read them, each at its own pace: a follower that is
//! too slow misses some, and is told how many.
//!
//! All of this runs on control threads. A thread that adds an event waits for no follower: the lock is held for moments only,
//! and followers take copies.

use api::event::{Event, EventKind};
use handover::EventNotifier;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Events that are kept, together with the actions in them.
const KEPT: usize = 1024;

/// Followers at a time.
const MOST_FOLLOWERS: usize = 32;

/// Numbered events that a follower takes at a time.
const TAKEN: usize = 64;

/// The log.
pub struct Events {
    log: Mutex<Log>,
}

struct Log {
    /// By their numbers.
    numbered: Kept,
    /// Events about addresses, for those who follow them.
    addresses: Kept,
    followers: Vec<Following>,
    /// Number of the first event.
    first: u64,
}

/// A follower, as the log knows it.
struct Following {
    wake: Arc<EventNotifier>,
    learned: bool,
}

/// The newest events of a kind, at places that count up.
#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    /// Place of the next event.
    next: u64,
    /// Events and the actions in them.
    weight: usize,
}

fn weight(event: &Event) -> usize {
    1 + event.kind.actions().len()
}

impl Kept {
    fn push(&mut self, event: Event) {
        self.weight += weight(&event);
        self.events.push_back(event);
        self.next += 1;
        while self.weight > KEPT && self.events.len() > 1 {
            self.weight -= self.events.pop_front().as_ref().map_or(0, weight);
        }
    }

    /// Returns the place of the oldest event.
    fn oldest(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// Returns the events from a place on, as long as they are wanted and at most this many, and how many before them are lost. The
    /// place becomes that of the next ones.
    fn take(&self, place: &mut u64, most: usize, is_wanted: impl Fn(&Event) -> bool) -> (u64, Vec<Event>) {
        let oldest = self.oldest();
        let from = oldest.max(*place);
        let next = self.events.iter().skip((from - oldest) as usize);
        let taken: Vec<_> = next.take(most).take_while(|event| is_wanted(event)).cloned().collect();
        let lost = from - *place;
        *place = from + taken.len() as u64;
        (lost, taken)
    }
}

/// Reason why nobody can follow the events at present.
#[derive(Debug, thiserror::Error)]
pub enum CannotFollow {
    /// There are too many followers.
    #[error("{MOST_FOLLOWERS} clients already follow the events; let one of them end")]
    TooMany,
    /// A system call failed.
    #[error("cannot create an eventfd: {0}")]
    System(#[from] io::Error),
}

impl Events {
    /// Returns a log. The numbers of its events begin with the time, in milliseconds: they are greater than those of any earlier log.
    #[expect(clippy::new_without_default, reason = "a log begins at a time")]
    pub fn new() -> Events {
        let first = (now() * 1000.0) as u64;
        let numbered = Kept { next: first, ..Kept::default() };
        Events { log: Mutex::new(Log { numbered, addresses: Kept::default(), followers: Vec::new(), first }) }
    }

    /// Adds an event.
    pub fn tell(&self, kind: EventKind) {
        let mut log = self.log();
        let seq = log.numbered.next;
        log.numbered.push(Event { seq, time: now(), kind });
        log.followers.iter().for_each(|follower| follower.wake.notify());
    }

    /// Adds events about addresses, for those who follow them.
    pub(crate) fn tell_of_addresses(&self, kinds: Vec<EventKind>) {
        let mut log = self.log();
        let (seq, time) = (log.numbered.next - 1, now());
        kinds.into_iter().for_each(|kind| log.addresses.push(Event { seq, time, kind }));
        log.followers.iter().filter(|follower| follower.learned).for_each(|follower| follower.wake.notify());
    }

    /// Reports whether someone follows addresses.
    pub(crate) fn are_addresses_wanted(&self) -> bool {
        self.log().followers.iter().any(|follower| follower.learned)
    }

    /// Returns the events after the one of this number that are kept, or of these the `last` ones.
    pub fn list(&self, since: Option<u64>, last: Option<usize>) -> Vec<Event> {
        let log = self.log();
        let kept = &log.numbered;
        let mut next = since.map_or(kept.oldest(), |since| log.after(since));
        if let Some(last) = last {
            next = next.max(kept.oldest()).max(kept.next.saturating_sub(last as u64));
        }
        let (lost, events) = kept.take(&mut next, usize::MAX, |_| true);
        told_of(lost, next - events.len() as u64, events)
    }

    /// Returns a follower, which gets the events after the one of this number, or those to come; those about addresses if it asks for
    /// what is `learned`. Also returns the number of the newest event.
    ///
    /// # Errors
    ///
    /// There are too many followers, or no descriptor is left.
    pub fn follow(self: &Arc<Self>, since: Option<u64>, learned: bool) -> Result<(Follower, u64), CannotFollow> {
        let wake = Arc::new(EventNotifier::new()?);
        let mut log = self.log();
        if log.followers.len() >= MOST_FOLLOWERS {
            return Err(CannotFollow::TooMany);
        }
        log.followers.push(Following { wake: wake.clone(), learned });
        // It takes what there is.
        wake.notify();
        let next = since.map_or(log.numbered.next, |since| log.after(since));
        let next_address = learned.then_some(log.addresses.next);
        Ok((Follower { events: self.clone(), wake, next, next_address }, log.numbered.next - 1))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }
}

impl Log {
    /// Returns the place after the event of this number. After one of another log, that is the first one of this.
    fn after(&self, since: u64) -> u64 {
        if (self.first..self.numbered.next).contains(&since) { since + 1 } else { self.first }
    }
}

/// One who follows the events.
pub struct Follower {
    events: Arc<Events>,
    wake: Arc<EventNotifier>,
    /// Place of the next event.
    next: u64,
    /// Place of the next one about addresses, if it wants these.
    next_address: Option<u64>,
}

impl Follower {
    /// Returns the next events, not all of them if there are many. If it has missed some, the first one says how many.
    pub fn take(&mut self) -> Vec<Event> {
        self.wake.clear();
        let log = self.events.log();
        let (mut lost, mut events) = log.numbered.take(&mut self.next, TAKEN, |_| true);
        let (next, from) = (self.next, self.next - events.len() as u64);
        if let Some(place) = &mut self.next_address {
            // Those of later numbers come with these.
            let (missed, addresses) = log.addresses.take(place, usize::MAX, |event| event.seq < next);
            lost += missed;
            events.extend(addresses);
            // Of those with the same number, addresses stay behind.
            events.sort_by_key(|event| event.seq);
        }
        if next < log.numbered.next {
            self.wake.notify();
        }
        told_of(lost, from, events)
    }
}

/// Puts an event before these that tells of lost ones, if there are any. `from` is the number of the first event, or would be.
fn told_of(lost: u64, from: u64, mut events: Vec<Event>) -> Vec<Event> {
    if lost > 0 {
        events.insert(0, Event { seq: from - 1, time: now(), kind: EventKind::Lost { count: lost } });
    }
    events
}

/// It is readable when there are events to take.
impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.fd().as_fd()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.events.log().followers.retain(|other| !Arc::ptr_eq(&other.wake, &self.wake));
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
