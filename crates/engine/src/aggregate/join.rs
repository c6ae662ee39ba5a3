//! Joining: packets of a burst to one next hop leave as one frame.
//!
//! The frame consists of many segments: headers and lengths from a small arena here, and the packets from where they
//! lie. What gathers them into the output's buffer is the one copy.

use super::counters::HopCounters;
use super::{Member, Reader};
use crate::drops::{Drops, Reason};
use crate::octets::Bytes;
use crate::port::around::AroundTransmit;
use crate::port::{Sent, Transmit};
use paflow::checksum::Sum;
use paflow::encode::{Framing, Part, Parts};
use paflow::header::entry_size;
use paflow::plan::{Group, Plan};
use paflow::{Nfi, Octets, Planner, Rules};
use std::cell::RefCell;
use std::sync::Arc;
use virtqueue::{Burst, BurstStorage, Frames, MAX_BURST, MAX_SEGMENTS, Segment};

/// Bytes for headers and lengths: at most half as many headers of 88 bytes as packets, and a word for each packet and for
/// the end of each group.
const ARENA: usize = MAX_BURST / 2 * 88 + MAX_BURST * 4 + MAX_BURST / 2 * 4;

/// Segments that joining adds at most: headers, lengths and the last padding.
const ADDED: usize = MAX_BURST / 2 + 2 * MAX_BURST + MAX_BURST / 2;

/// Sends to a port that aggregates.
pub(crate) struct Join {
    inner: Box<dyn Transmit>,
    member: Member,
    queue: usize,
    drops: Arc<Drops>,
    state: RefCell<State>,
}

/// What is kept from burst to burst.
struct State {
    rules: Reader<Rules>,
    /// As many as the rules have next hops: bytes that an aggregate has for packets, none if the next hop is not behind
    /// this port, and the counters.
    hops: Vec<(u32, Arc<HopCounters>)>,
    /// The most bytes that any of them has.
    most: u32,
    planner: Box<Planner>,
    storage: Box<BurstStorage>,
    arena: Box<[u8; ARENA]>,
}

impl Join {
    /// Puts itself around `inner`, which is the port's queue of this number.
    pub(crate) fn new(inner: Box<dyn Transmit>, member: Member, queue: usize, drops: Arc<Drops>) -> Join {
        let state = State {
            rules: Reader::new(member.rules.clone()),
            hops: Vec::new(),
            most: 0,
            planner: Box::default(),
            storage: Box::default(),
            arena: Box::new([0; ARENA]),
        };
        Join { inner, member, queue, drops, state: RefCell::new(state) }
    }

    /// What has to be known of each next hop, when the rules have changed.
    #[cold]
    fn know(&self, state: &mut State) {
        let rules = state.rules.value();
        let traffic = &self.member.traffic[self.queue];
        state.hops.clear();
        state.hops.extend(rules.hops.iter().map(|hop| (hop.room(&self.member.port), traffic.hop(hop.nfi))));
        state.most = state.hops.iter().map(|hop| hop.0).max().unwrap_or(0);
    }

    /// Sends what is of a known chain, and drops the rest.
    #[cold]
    fn transmit_known(&self, frames: Frames<'_>, next_hops: &[Option<Nfi>], state: &mut State) -> Sent {
        let all = frames.as_slice();
        let Some(&first) = all.first() else { return Sent::default() };
        let (mut known, mut hops, mut count) = ([first; MAX_BURST], [None; MAX_BURST], 0);
        for (frame, hop) in all.iter().zip(next_hops).filter(|(_, hop)| hop.is_some()) {
            (known[count], hops[count]) = (*frame, *hop);
            count += 1;
        }
        let unknown = (all.len() - count) as u32;
        self.drops.add(Reason::UnknownChain, unknown.into());
        let sent = self.transmit_planned(frames.select(&known[..count]), &hops[..count], state);
        Sent { counted: sent.counted + unknown, ..sent }
    }

    #[inline(always)]
    fn transmit_planned(&self, frames: Frames<'_>, next_hops: &[Option<Nfi>], state: &mut State) -> Sent {
        let State { rules, hops, most, planner, storage, arena } = state;
        let rules = &**rules.value();
        let mut lengths = [0; MAX_BURST];
        lengths.iter_mut().zip(frames.as_slice()).for_each(|(length, frame)| *length = frame.len() as u16);
        let lengths = &lengths[..frames.len()];
        let count = Count { rules, hops, traffic: &self.member.traffic[self.queue] };
        if are_too_long(lengths, *most) {
            return count.single(lengths, next_hops, self.inner.transmit(frames));
        }
        let plan = planner.plan(lengths, next_hops, |nfi| rules.hop(nfi).map_or(0, |hop| hops[hop].0));
        if plan.groups().len() == frames.len() || has_many_segments(&frames) {
            return count.single(lengths, next_hops, self.inner.transmit(frames));
        }
        let mut burst = storage.start();
        let mut arena = &mut arena[..];
        for group in plan.groups() {
            let added = match group.next_hop().and_then(|nfi| rules.hop(nfi)).filter(|_| !group.goes_as_it_is()) {
                None => burst.push_frame(&frames, &frames.as_slice()[group.first()]),
                Some(hop) => {
                    let template = &rules.hops[hop].template;
                    let sum = if template.wants_sum() { sum_of(&plan, group, &frames) } else { Sum::new() };
                    let headers = put(&mut arena, &template.headers(group.count(), group.size(), sum));
                    burst.push_segments(Gather {
                        headers: Some(headers),
                        parts: plan.parts(group),
                        frames: &frames,
                        arena: &mut arena,
                        packet: None,
                    })
                }
            };
            debug_assert!(added, "segments were counted");
        }
        let sent = self.inner.transmit(burst.frames());
        frames.keep_places(burst.kept());
        count.joined(&plan, lengths, &burst, sent)
    }
}

impl AroundTransmit for Join {
    fn inner(&self) -> &dyn Transmit {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Transmit {
        &mut *self.inner
    }

    fn transmit_through(&self, frames: Frames<'_>) -> Sent {
        let state = &mut *self.state.borrow_mut();
        if state.rules.has_changed() {
            self.know(state);
        }
        let rules = &**state.rules.value();
        let mut next_hops = [None; MAX_BURST];
        let mut known = true;
        for (hop, frame) in next_hops.iter_mut().zip(frames.as_slice()) {
            *hop = rules.table.next_hop(&Bytes::new(&frames, frame));
            known &= hop.is_some();
        }
        let next_hops = &next_hops[..frames.len()];
        if rules.drop_unknown && !known {
            return self.transmit_known(frames, next_hops, state);
        }
        self.transmit_planned(frames, next_hops, state)
    }
}

/// No two of these packets fit into `most` bytes: there is nothing to plan.
#[inline(always)]
fn are_too_long(lengths: &[u16], most: u32) -> bool {
    let (mut shortest, mut second) = (u16::MAX, u16::MAX);
    for &len in lengths {
        second = second.min(shortest.max(len));
        shortest = shortest.min(len);
    }
    entry_size(shortest) + entry_size(second) > most
}

/// Frames of so many segments that they could not all be joined. Nobody cuts frames like that but to cause trouble.
#[inline(always)]
fn has_many_segments(frames: &Frames<'_>) -> bool {
    let cut = frames.as_slice().iter().filter(|frame| !frame.is_contiguous());
    cut.map(|frame| frames.segments(frame).count()).sum::<usize>() > MAX_SEGMENTS - ADDED
}

/// Writes `bytes` to the front of the arena, which is used up by that.
#[inline]
fn put<'q>(arena: &mut &'q mut [u8], bytes: &[u8]) -> Segment<'q> {
    let (now, rest) = std::mem::take(arena).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *arena = rest;
    Segment::from(&*now)
}

/// The same for the few bytes between two packets, without a call to copy them.
#[inline(always)]
fn put_framing<'q>(arena: &mut &'q mut [u8], bytes: &Framing) -> Option<Segment<'q>> {
    let (now, rest) = std::mem::take(arena).split_first_chunk_mut()?;
    let (word, used) = bytes.word();
    *now = word;
    *arena = rest;
    Some(Segment::from(&now[used]))
}

/// The segments of an aggregate.
struct Gather<'x, 'q> {
    headers: Option<Segment<'q>>,
    parts: Parts<'x>,
    frames: &'x Frames<'q>,
    arena: &'x mut &'q mut [u8],
    /// A packet of several segments: index of its frame, and how many segments have gone.
    packet: Option<(usize, usize)>,
}

impl<'q> Iterator for Gather<'_, 'q> {
    type Item = Segment<'q>;

    #[inline(always)]
    fn next(&mut self) -> Option<Segment<'q>> {
        if let Some(headers) = self.headers.take() {
            return Some(headers);
        }
        if let Some((index, gone)) = self.packet {
            let frame = &self.frames.as_slice()[index];
            self.packet = Some((index, gone + 1));
            if let Some(segment) = self.frames.segments(frame).nth(gone) {
                return Some(segment);
            }
            self.packet = None;
        }
        match self.parts.next()? {
            Part::Framing(bytes) => put_framing(self.arena, &bytes),
            Part::Packet(index) => {
                let frame = &self.frames.as_slice()[index];
                if !frame.is_contiguous() {
                    self.packet = Some((index, 1));
                }
                Some(frame.first())
            }
        }
    }
}

/// The sum of an aggregate behind its headers.
fn sum_of(plan: &Plan<'_>, group: &Group, frames: &Frames<'_>) -> Sum {
    let mut sum = Sum::new();
    for part in plan.parts(group) {
        match part {
            Part::Framing(bytes) => sum.add(&bytes),
            Part::Packet(index) => {
                let bytes = Bytes::new(frames, &frames.as_slice()[index]);
                let mut at = 0;
                while let Some(block) = bytes.read::<64>(at) {
                    sum.add(&block);
                    at += 64;
                }
                while let Some(byte) = bytes.byte(at) {
                    sum.add(&[byte]);
                    at += 1;
                }
            }
        }
    }
    sum
}

/// What is counted when a burst has been sent. The worker counts packets, and here are the frames that they went in.
struct Count<'x> {
    rules: &'x Rules,
    hops: &'x [(u32, Arc<HopCounters>)],
    traffic: &'x super::Traffic,
}

impl Count<'_> {
    /// Frames: next hop, length, packets. Frames to one next hop come in runs, and a run is counted at once.
    #[inline(always)]
    fn frames(&self, frames: impl Iterator<Item = (Option<Nfi>, u32, u16)> + Clone) {
        self.traffic.sent.count(frames.clone().map(|(_, len, packets)| (len, packets.into(), packets > 1)));
        let (mut to, mut run) = (None, [0; 3]);
        for (next_hop, _, packets) in frames {
            if next_hop != to {
                self.hop(to, run);
                (to, run) = (next_hop, [0; 3]);
            }
            run = [run[0] + u64::from(packets), run[1] + 1, run[2] + u64::from(packets > 1)];
        }
        self.hop(to, run);
    }

    #[inline(always)]
    fn hop(&self, next_hop: Option<Nfi>, [packets, frames, aggregates]: [u64; 3]) {
        if let Some(hop) = next_hop.and_then(|nfi| self.rules.hop(nfi)) {
            let counters = &self.hops[hop].1;
            counters.packets.add(packets);
            counters.frames.add(frames);
            counters.aggregates.add(aggregates);
        }
    }

    /// Every packet went as it was. If some were dropped, those at the end are taken to be.
    #[inline(always)]
    fn single(&self, lengths: &[u16], next_hops: &[Option<Nfi>], sent: Sent) -> Sent {
        let all = next_hops.iter().zip(lengths).map(|(&hop, &len)| (hop, u32::from(len), 1));
        self.frames(all.take(sent.frames as usize));
        sent
    }

    /// Each group was a frame: turns frames into packets.
    #[inline(always)]
    fn joined(&self, plan: &Plan<'_>, lengths: &[u16], burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let groups = plan.groups();
        if sent.frames as usize != groups.len() {
            return self.some(plan, lengths, burst, sent);
        }
        let frames = burst.frames();
        let all = groups.iter().zip(frames.as_slice());
        self.frames(all.map(|(group, frame)| (group.next_hop(), frame.len(), group.count())));
        let bytes = lengths.iter().map(|&len| u64::from(len)).sum();
        Sent { frames: lengths.len() as u32, bytes, ..sent }
    }

    /// Not all were sent. They went in order up to some frame, and of those before it the longest were too long.
    #[cold]
    fn some(&self, plan: &Plan<'_>, lengths: &[u16], burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let frames = burst.frames();
        let tried = ((sent.frames + sent.too_long + sent.refused) as usize).min(frames.len());
        let mut by_length: [usize; MAX_BURST] = std::array::from_fn(|index| index);
        by_length[..tried].sort_unstable_by_key(|&index| std::cmp::Reverse(frames.as_slice()[index].len()));
        let too_long = &by_length[..(sent.too_long as usize).min(tried)];
        let mut packets = Sent { rest: sent.rest, counted: sent.counted, ..Sent::default() };
        let mut gone = 0;
        for (index, (group, frame)) in plan.groups().iter().zip(frames.as_slice()).enumerate() {
            let count = u32::from(group.count());
            if too_long.contains(&index) {
                packets.too_long += count;
                continue;
            }
            gone += 1;
            if gone <= sent.frames {
                self.frames(std::iter::once((group.next_hop(), frame.len(), group.count())));
                packets.frames += count;
                packets.bytes += plan.members(group).map(|member| u64::from(lengths[member])).sum::<u64>();
            } else if gone <= sent.frames + sent.refused {
                packets.refused += count;
            }
        }
        packets
    }
}

const _: fn() = || {
    fn moves<T: Send>() {}
    moves::<Join>();
};
