//! Merging: segments of TCP for one queue that takes messages become messages ([`packet::merge`]), each with the burst it came in.
//!
//! This is the last step before the queue, behind all stages, and looks like the queue's half to them: a queue that takes no messages has
//! its half alone, and pays nothing.

use crate::counters::QueueCounters;
use crate::drops::Reason;
use crate::port::zero_copy::{GuestBuffers, ZeroCopyTx};
use crate::port::{LifeCycle, Sent, TxQueue};
use packet::merge::{Limits, Merger, Outgoing, may_merge};
use packet::offload::Offloads;
use packet::{Burst, BurstStorage, Frame, Frames, Headers, Judged, Kind, MAX_BURST, Segment, Taken, Unjudged};
use std::cell::RefCell;
use std::sync::Arc;

/// A queue's half, and what comes before it. One worker at a time drives it.
struct Merging {
    half: Box<dyn TxQueue>,
    limits: Limits,
    counters: Arc<QueueCounters>,
    room: RefCell<Box<Room>>,
}

/// Room for a burst.
#[derive(Default)]
struct Room {
    merger: Merger,
    storage: BurstStorage,
    headers: Headers,
}

/// Frames that were judged by their Ethernet headers, and room to put both together.
type Ethernets<'b, 'r> = (&'b Headers, &'r mut BurstStorage);

/// Returns the half with merging before it, if it takes messages of TCP.
pub(super) fn before(half: Box<dyn TxQueue>, counters: &Arc<QueueCounters>) -> Box<dyn TxQueue> {
    let limits = Limits { takes: half.takes(), longest: half.longest_merged() };
    if (limits.takes & (Offloads::TCP4 | Offloads::TCP6)).is_none() || limits.longest == 0 {
        return half;
    }
    Box::new(Merging { half, limits, counters: counters.clone(), room: RefCell::default() })
}

impl Merging {
    /// Sends frames, with their `taken` bytes, as those of which some are merged. `None` if there is nothing to merge. Frames that were
    /// judged by their `ethernets` stay as they lie if they go alone.
    fn send<'b>(
        &self,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        ethernets: Option<Ethernets<'b, '_>>,
    ) -> Option<Sent> {
        let mut room = self.room.borrow_mut();
        let Room { merger, storage, headers } = &mut **room;
        let merged = merger.merge(&frames, taken, self.limits)?;
        let mut burst = storage.start();
        let (mut units, mut count) = ([Unit::default(); MAX_BURST], 0);
        for (outgoing, unit) in merged.frames().zip(&mut units) {
            let added = match outgoing {
                Outgoing::Frame(index) => {
                    *unit = Unit::of(index, [index].into_iter());
                    let frame = &frames.as_slice()[index];
                    if ethernets.is_some() {
                        burst.push_frame(&frames, frame)
                    } else {
                        add(&mut burst, &frames, taken, index)
                    }
                }
                Outgoing::Message(message) => {
                    *unit = Unit::of(message.first(), message.members());
                    let added = burst.push_segments(message.segments(&frames, taken));
                    if added {
                        burst.leave(message.offload());
                    }
                    added
                }
            };
            if !added {
                // They lie in too many pieces, as only a malicious guest's do.
                return None;
            }
            count += 1;
        }
        let units = &units[..count];
        let sent = match ethernets {
            Some((taken, room)) => {
                let firsts = units.iter().map(|unit| usize::from(unit.first));
                self.half.transmit_judged(burst.frames().with_headers(taken, firsts, headers), room)
            }
            None => self.half.transmit(burst.frames()),
        };
        frames.keep_places(burst.kept());
        let outcome = Outcome::of(units, sent);
        self.counters.merged.add(outcome.merged);
        self.counters.messages.add(outcome.messages);
        if sent.rest == Some(Reason::NoBuffers) && outcome.unsent.iter().any(|unit| unit.frames > 1) {
            // Some of the frames of a message may have room where it has none.
            let left = outcome.unsent.iter().fold(0, |left, unit| left | unit.members);
            let before = Sent { rest: None, ..outcome.sent };
            return Some(before.and(self.send_alone(storage, frames, taken, left)));
        }
        Some(outcome.sent)
    }

    /// Sends those frames that `which` has a bit for, as they came.
    #[cold]
    fn send_alone<'b>(
        &self,
        storage: &mut BurstStorage,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        which: u32,
    ) -> Sent {
        let (mut burst, mut too_long) = (storage.start(), 0);
        for index in (0..frames.len()).filter(|index| which >> index & 1 == 1) {
            too_long += u32::from(!add(&mut burst, &frames, taken, index));
        }
        let sent = self.half.transmit(burst.frames());
        frames.keep_places(burst.kept());
        Sent { too_long: sent.too_long + too_long, ..sent }
    }
}

/// Adds a frame to a burst as it came. Returns false if it lies in too many pieces.
fn add<'q, 'b: 'q>(burst: &mut Burst<'_, 'q>, frames: &Frames<'b>, taken: impl Taken<'b>, index: usize) -> bool {
    let frame = &frames.as_slice()[index];
    if taken.taken(index).is_empty() {
        burst.push_frame(frames, frame)
    } else {
        let segments = taken.segments(frames, index).map(|segment: Segment<'b>| -> Segment<'q> { segment });
        burst.push_rebuilt(frame, 0, segments)
    }
}

impl TxQueue for Merging {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let merged = if may_merge(frames.as_slice()) { self.send(frames, Unjudged, None) } else { None };
        merged.unwrap_or_else(|| self.half.transmit(frames))
    }

    fn transmit_judged(&self, judged: Judged<'_>, room: &mut BurstStorage) -> Sent {
        let frames = judged.frames();
        let merged = match judged.taken() {
            _ if !may_merge(frames.as_slice()) => None,
            Kind::Headers(taken) => self.send(frames, taken, Some((taken, room))),
            Kind::Heads(taken) => self.send(frames, taken, None),
        };
        merged.unwrap_or_else(|| self.half.transmit_judged(judged, room))
    }

    fn takes(&self) -> Offloads {
        self.half.takes()
    }

    fn takes_from(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> bool {
        self.half.takes_from(frames, frame)
    }

    fn longest_merged(&self) -> u32 {
        // Another one before this would find nothing to merge.
        0
    }

    fn notify(&self) {
        self.half.notify();
    }

    fn zero_copy(&self) -> Option<&dyn ZeroCopyTx> {
        self.half.zero_copy()
    }

    fn exchanges(&self) -> bool {
        self.half.exchanges()
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        self.half.life_cycle()
    }

    fn guest(&self) -> Option<&GuestBuffers> {
        self.half.guest()
    }
}

/// A frame that was sent, or not: which of those that came are in it, a bit for each; the first, and their number.
#[derive(Clone, Copy, Default)]
struct Unit {
    members: u32,
    first: u8,
    frames: u8,
}

const _: () = assert!(MAX_BURST <= u32::BITS as usize, "a bit for each frame");

impl Unit {
    fn of(first: usize, members: impl Iterator<Item = usize>) -> Unit {
        let members = members.fold(0, |members, index| members | 1 << index);
        Unit { members, first: first as u8, frames: members.count_ones() as u8 }
    }
}

/// What became of frames, by those that came.
struct Outcome<'u> {
    sent: Sent,
    /// Frames that went in messages, and these.
    merged: u64,
    messages: u64,
    /// Those at which the queue had no more room.
    unsent: &'u [Unit],
}

impl<'u> Outcome<'u> {
    /// Returns the outcome of frames of which this became.
    fn of(units: &'u [Unit], sent: Sent) -> Outcome<'u> {
        let lost = [sent.too_long, sent.refused, sent.bad_offload, sent.counted];
        let done = (sent.frames + lost.iter().sum::<u32>()) as usize;
        let (done, unsent) = units.split_at(done.min(units.len()));
        let mut frames = [0; MAX_BURST];
        let frames = &mut frames[..done.len()];
        frames.iter_mut().zip(done).for_each(|(frames, unit)| *frames = u32::from(unit.frames));
        let mut gone = &*frames;
        let mut outcome = sent;
        if lost != [0; 4] {
            // The queue does not say which: the longest.
            frames.sort_unstable_by_key(|frames| std::cmp::Reverse(*frames));
            let mut rest = &*frames;
            let mut take = |count: u32| {
                let (these, others) = rest.split_at((count as usize).min(rest.len()));
                rest = others;
                these.iter().sum::<u32>()
            };
            outcome.too_long = take(sent.too_long);
            outcome.refused = take(sent.refused);
            outcome.bad_offload = take(sent.bad_offload);
            // Each is counted as one, and its other frames with the rest.
            take(sent.counted);
            gone = rest;
        }
        outcome.frames = gone.iter().sum();
        let messages = || gone.iter().filter(|frames| **frames > 1);
        let (merged, messages) = (messages().sum::<u32>().into(), messages().count() as u64);
        Outcome { sent: outcome, merged, messages, unsent }
    }
}

#[cfg(test)]
mod tests;
