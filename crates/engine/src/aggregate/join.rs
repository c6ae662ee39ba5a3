//! Joining: packets of a burst to one next hop leave as one frame.
//!
//! The frame consists of many segments: headers and lengths from a small arena here, and the packets from where they
//! lie. What gathers them into the output's buffer is the one copy.

use super::counters::HopCounters;
use super::octets::Bytes;
use super::{Member, Reader, Rules};
use crate::drops::{Drops, Reason};
use crate::port::vhost_user::VhostTransmit;
use crate::port::{Sent, Transmit};
use paflow::checksum::Sum;
use paflow::encode::{Framing, Part, Parts};
use paflow::plan::{Group, Plan};
use paflow::{Nfi, Octets, Planner};
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
            planner: Box::default(),
            storage: Box::default(),
            arena: Box::new([0; ARENA]),
        };
        Join { inner, member, queue, drops, state: RefCell::new(state) }
    }

    /// What has to be known of each next hop, when the rules have changed.
    #[cold]
    fn know(&self, rules: &Rules, hops: &mut Vec<(u32, Arc<HopCounters>)>) {
        let traffic = &self.member.traffic[self.queue];
        hops.clear();
        hops.extend(rules.hops.iter().map(|hop| {
            let here = hop.port.as_deref().is_none_or(|port| *port == *self.member.port);
            (if here { hop.template.room() } else { 0 }, traffic.hop(hop.nfi))
        }));
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
        let State { rules, hops, planner, storage, arena } = state;
        let rules = &**rules.value();
        let mut lengths = [0; MAX_BURST];
        lengths.iter_mut().zip(frames.as_slice()).for_each(|(length, frame)| *length = frame.len() as u16);
        let lengths = &lengths[..frames.len()];
        let plan = planner.plan(lengths, next_hops, |nfi| rules.hop(nfi).map_or(0, |hop| hops[hop].0));
        let done = Done { plan: &plan, lengths, rules, hops, traffic: &self.member.traffic[self.queue] };
        if plan.groups().len() == frames.len() || has_many_segments(&frames) {
            return done.count_single(self.inner.transmit(frames));
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
        done.count_joined(&burst, sent)
    }
}

impl Transmit for Join {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let state = &mut *self.state.borrow_mut();
        if state.rules.has_changed() {
            self.know(&state.rules.value().clone(), &mut state.hops);
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

    fn notify(&self) {
        self.inner.notify();
    }

    fn base(&self) -> Option<u32> {
        self.inner.base()
    }

    fn returned(&self, release: &mut dyn FnMut(u16)) {
        self.inner.returned(release);
    }

    fn recall(&self, release: &mut dyn FnMut(u16)) {
        self.inner.recall(release);
    }

    fn keeps(&self) -> bool {
        self.inner.keeps()
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn guest(&self) -> Option<&VhostTransmit> {
        self.inner.guest()
    }
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
struct Done<'x> {
    plan: &'x Plan<'x>,
    lengths: &'x [u16],
    rules: &'x Rules,
    hops: &'x [(u32, Arc<HopCounters>)],
    traffic: &'x super::Traffic,
}

impl Done<'_> {
    #[inline(always)]
    fn frame(&self, next_hop: Option<Nfi>, len: u32, packets: u16) {
        self.traffic.sent.frame(len, packets.into(), packets > 1);
        if let Some(hop) = next_hop.and_then(|nfi| self.rules.hop(nfi)) {
            let counters = &self.hops[hop].1;
            counters.packets.add(packets.into());
            counters.frames.add(1);
            counters.aggregates.add(u64::from(packets > 1));
        }
    }

    /// Every packet went as it was. If some were dropped, those at the end are taken to be.
    #[inline(always)]
    fn count_single(&self, sent: Sent) -> Sent {
        let hops = self.plan.groups().iter().flat_map(|group| self.plan.members(group).map(|_| group.next_hop()));
        for (len, hop) in self.lengths.iter().zip(hops).take(sent.frames as usize) {
            self.frame(hop, (*len).into(), 1);
        }
        sent
    }

    /// Each group was a frame: turns frames into packets.
    #[inline(always)]
    fn count_joined(&self, burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let groups = self.plan.groups();
        if sent.frames as usize != groups.len() {
            return self.count_some(burst, sent);
        }
        for (group, frame) in groups.iter().zip(burst.frames().as_slice()) {
            self.frame(group.next_hop(), frame.len(), group.count());
        }
        let bytes = self.lengths.iter().map(|&len| u64::from(len)).sum();
        Sent { frames: self.lengths.len() as u32, bytes, ..sent }
    }

    /// Not all were sent. They went in order up to some frame, and of those before it the longest were too long.
    #[cold]
    fn count_some(&self, burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let frames = burst.frames();
        let tried = ((sent.frames + sent.too_long + sent.refused) as usize).min(frames.len());
        let mut by_length: [usize; MAX_BURST] = std::array::from_fn(|index| index);
        by_length[..tried].sort_unstable_by_key(|&index| std::cmp::Reverse(frames.as_slice()[index].len()));
        let too_long = &by_length[..(sent.too_long as usize).min(tried)];
        let mut packets = Sent { rest: sent.rest, counted: sent.counted, ..Sent::default() };
        let mut gone = 0;
        for (index, (group, frame)) in self.plan.groups().iter().zip(frames.as_slice()).enumerate() {
            let count = u32::from(group.count());
            if too_long.contains(&index) {
                packets.too_long += count;
                continue;
            }
            gone += 1;
            if gone <= sent.frames {
                self.frame(group.next_hop(), frame.len(), group.count());
                packets.frames += count;
                packets.bytes += self.plan.members(group).map(|member| u64::from(self.lengths[member])).sum::<u64>();
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
