//! Joining: packets of a burst to one next hop leave as one frame.
//!
//! The frame has many segments: headers and lengths from a small arena here, and the packets in place. The output
//! gathers them into its buffer, which is the one copy.
//!
//! If more bursts may follow in the round, packets that fill at most half a frame are held until then, or until the end
//! of the round. They are copied, as the buffers that they lie in are recycled before. No packet waits longer.

use super::Member;
use super::count::{Contents, Count, HopState, Leaving};
use super::counters::{Traffic, common_len};
use super::gather::{Gather, class_of, put, sum_of};
use super::held::Held;
use super::too_long::Cutter;
use crate::drops::{Drops, Reason};
use crate::live::Reader;
use crate::octets::Bytes;
use crate::port::Sent;
use crate::stage::egress::{EgressStage, Next};
use crate::stage::taking::Taking;
use packet::checksum::Sum;
use packet::{BurstStorage, Frame, Frames, MAX_BURST, MAX_SEGMENTS, Segment};
use paflow::header::entry_size;
use paflow::outer::MAX_HEADERS;
use paflow::plan::{Group, GroupedBurst, Room};
use paflow::too_long::TooLong;
use paflow::{AggregationRules, Nfi, Planner, Template};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Bytes for headers and lengths: at most as many headers as frames, and a word for each packet and for the end of each group.
const ARENA: usize = MAX_BURST * MAX_HEADERS + MAX_BURST * 4 + MAX_BURST * 4;

/// Maximum number of segments that joining adds: headers, held packets and the last padding of each frame, and lengths.
const ADDED: usize = 3 * MAX_BURST + 2 * MAX_BURST;

/// Joining of packets to a queue of a port that aggregates.
pub(crate) struct Join {
    member: Member,
    queue: usize,
    traffic: Arc<Traffic>,
    drops: Arc<Drops>,
    taking: RefCell<Taking>,
    state: RefCell<JoinState>,
}

/// State kept from burst to burst.
struct JoinState {
    rules: Reader<AggregationRules>,
    /// The next hops of the rules, in their order.
    hops: Vec<HopState>,
    /// The most room that any of them has.
    most: u32,
    /// Whether any of them is behind routers.
    routed: bool,
    /// For packets that are too long for these; made for the first one.
    cutter: Option<Box<Cutter>>,
    planner: Box<Planner>,
    storage: Box<BurstStorage>,
    arena: Box<[u8; ARENA]>,
    /// Packets held under these rules.
    held: Held,
}

/// Packets of a burst.
#[derive(Clone, Copy)]
struct Packets<'b> {
    /// With the heads that decide about them.
    taken: Frames<'b>,
    /// The same packets as they are sent alone: from where they lie, unless those of unknown chains are dropped. Then their heads
    /// decide about them, too.
    alone: Frames<'b>,
    lengths: &'b [u16],
    next_hops: &'b [Option<Nfi>],
}

impl<'b> Packets<'b> {
    fn select(&self, range: Range<usize>) -> Packets<'b> {
        let select = |frames: &Frames<'b>| frames.select(&frames.as_slice()[range.clone()]);
        let (taken, alone) = (select(&self.taken), select(&self.alone));
        Packets { taken, alone, lengths: &self.lengths[range.clone()], next_hops: &self.next_hops[range] }
    }
}

impl Join {
    /// Joins packets to queue `queue` of a port.
    pub(crate) fn new(member: Member, queue: usize, drops: Arc<Drops>) -> Join {
        let state = JoinState {
            rules: Reader::new(member.rules.clone()),
            hops: Vec::new(),
            most: 0,
            routed: false,
            cutter: None,
            planner: Box::default(),
            storage: Box::default(),
            arena: Box::new([0; ARENA]),
            held: Held::new(),
        };
        let taking = RefCell::new(Taking::new(drops.clone()));
        let traffic = member.traffic.of(queue).clone();
        Join { member, queue, traffic, drops, taking, state: RefCell::new(state) }
    }

    /// Adopts new rules: sends the packets held under the old ones, and looks up the room and counters of each next hop.
    #[cold]
    fn take_rules(&self, state: &mut JoinState, next: Next<'_>) -> Sent {
        let sent = self.flush_held(state, next);
        state.rules.refresh();
        let rules = state.rules.value();
        let traffic = &self.traffic;
        state.hops.clear();
        state.hops.extend(
            rules.hops.iter().map(|hop| HopState { room: hop.room(&self.member.port), counters: traffic.hop(hop.nfi) }),
        );
        state.most = state.hops.iter().map(|hop| hop.room.bytes).max().unwrap_or(0);
        state.routed = state.hops.iter().any(|hop| hop.room.routed);
        sent
    }

    #[inline(always)]
    fn transmit_with(&self, frames: Frames<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let rules = &**state.rules.value();
        let common = common_len(frames.as_slice());
        let may_pass = !rules.drop_unknown && !state.routed && state.held.is_empty();
        if may_pass && are_too_long(frames.as_slice(), common, state.most, next.more) {
            return self.transmit_single(frames, common, next);
        }
        // A next hop gets the packets that were looked up for it, even if their sender changes them meanwhile.
        let mut taking = self.taking.borrow_mut();
        let burst = taking.take(frames);
        let (taken, refused) = (burst.frames(), (frames.len() - burst.len()) as u32);
        let alone = if rules.drop_unknown || refused > 0 { taken } else { frames };
        let sent = self.transmit_taken(taken, alone, state, next);
        Sent { counted: sent.counted + refused, ..sent }
    }

    /// Sends packets whose heads were taken.
    #[inline(always)]
    fn transmit_taken(&self, frames: Frames<'_>, alone: Frames<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let rules = &**state.rules.value();
        let lengths = lengths(&frames);
        let lengths = &lengths[..frames.len()];
        let mut next_hops = [None; MAX_BURST];
        rules.table.next_hops(frames.as_slice().iter().map(|frame| Bytes::new(&frames, frame)), &mut next_hops);
        let next_hops = &next_hops[..frames.len()];
        if rules.drop_unknown && next_hops.contains(&None) {
            return self.transmit_known(frames, next_hops, state, next);
        }
        self.transmit_planned(Packets { taken: frames, alone, lengths, next_hops }, state, next)
    }

    /// Sends a burst without joining anything. `common` is the length of all its frames, if they have one.
    fn transmit_single(&self, frames: Frames<'_>, common: Option<u32>, next: Next<'_>) -> Sent {
        let sent = next.transmit(frames);
        // If some were dropped, it counts as if those were the last.
        self.traffic.sent.count_packets(&frames.as_slice()[..sent.frames as usize], common);
        sent
    }

    /// Sends packets of known chains, and drops the rest.
    #[cold]
    fn transmit_known(
        &self,
        frames: Frames<'_>,
        next_hops: &[Option<Nfi>],
        state: &mut JoinState,
        next: Next<'_>,
    ) -> Sent {
        let all = frames.as_slice();
        let Some(&first) = all.first() else { return Sent::default() };
        let (mut known, mut hops, mut count) = ([first; MAX_BURST], [None; MAX_BURST], 0);
        for (frame, hop) in all.iter().zip(next_hops).filter(|(_, hop)| hop.is_some()) {
            (known[count], hops[count]) = (*frame, *hop);
            count += 1;
        }
        let unknown = (all.len() - count) as u32;
        self.drops.add(Reason::UnknownChain, unknown.into());
        let frames = frames.select(&known[..count]);
        let (lengths, next_hops) = (&lengths(&frames)[..count], &hops[..count]);
        let sent = self.transmit_planned(Packets { taken: frames, alone: frames, lengths, next_hops }, state, next);
        Sent { counted: sent.counted + unknown, ..sent }
    }

    /// Sends a burst with known lengths and next hops.
    #[inline(always)]
    fn transmit_planned(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let Packets { taken: frames, alone, lengths, next_hops } = packets;
        let JoinState { rules, hops, planner, storage, arena, held, routed, .. } = state;
        let rules = &**rules.value();
        let count = Count { rules, hops, traffic: &self.traffic };
        let room = |nfi| match rules.hop(nfi) {
            Some(hop) => Room { held: held.of(nfi).map_or(0, |slab| slab.entries().len() as u32), ..hops[hop].room },
            None => Room::default(),
        };
        let plan = planner.plan(lengths, next_hops, room);
        if *routed && plan.groups().iter().any(Group::is_too_long) {
            return self.transmit_around(packets, state, next);
        }
        if plan.groups().len() > MAX_BURST || has_many_segments(&frames) {
            if !held.is_empty() {
                return self.transmit_after(packets, state, next);
            }
            if *routed {
                return self.transmit_halves(packets, state, next);
            }
            return self.transmit_single(alone, common_len(alone.as_slice()), next);
        }
        let holds = if next.more { groups_to_hold(&plan, held) } else { 0 };
        if holds == 0 && held.is_empty() && !*routed && plan.groups().len() == frames.len() {
            return self.transmit_single(alone, common_len(alone.as_slice()), next);
        }
        let leaving = Leaving { plan: &plan, holds, held, lengths };
        let mut burst = storage.start();
        let mut arena = &mut arena[..];
        for group in leaving.groups() {
            let slab = if group.held() == 0 { None } else { group.next_hop().and_then(|nfi| held.of(nfi)) };
            let single = slab.filter(|_| group.count() == 0 && !group.is_routed()).and_then(|slab| slab.single());
            let added = match (single, group.next_hop().and_then(|nfi| rules.hop(nfi))) {
                (Some(packet), _) => burst.push_segments([Segment::from(packet)]),
                (None, Some(hop)) if !group.goes_as_it_is() => {
                    let entries = slab.map_or(&[][..], |slab| slab.entries());
                    let packets = group.count() + slab.map_or(0, |slab| slab.count);
                    let template = &rules.hops[hop].template;
                    let sum = if template.wants_sum() { sum_of(entries, &plan, group, &frames) } else { Sum::new() };
                    let class = if group.is_routed() { class_of(slab, &plan, group, &frames) } else { 0 };
                    let headers = put(&mut arena, &template.headers_of_class(class, packets, group.size(), sum));
                    let entries = slab.map(|_| Segment::from(entries));
                    burst.push_segments(Gather::new(headers, entries, plan.parts(group), &frames, &mut arena))
                }
                _ => burst.push_frame(&alone, &alone.as_slice()[group.first()]),
            };
            debug_assert!(added, "segments were counted");
        }
        let sent = if burst.is_empty() { Sent::default() } else { next.transmit(burst.frames()) };
        alone.keep_places(burst.kept());
        let sent = count.joined(&leaving, &burst, sent);
        if holds == 0 && held.is_empty() { sent } else { hold(held, &plan, holds, &frames, sent) }
    }

    /// The same, after sending all held packets.
    #[cold]
    fn transmit_after(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let before = self.flush_held(state, next);
        before.and(self.transmit_planned(packets, state, next))
    }

    /// Sends a burst with packets that are too long, in order.
    #[cold]
    fn transmit_around(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let Packets { lengths, next_hops, .. } = packets;
        let (mut sent, mut from) = (Sent::default(), 0);
        while from < lengths.len() {
            let is_too_long =
                |&index: &usize| room_of(state, next_hops[index]).is_some_and(|room| room.refuses(lengths[index]));
            let to = (from..lengths.len()).find(is_too_long).unwrap_or(lengths.len());
            if from < to {
                sent = sent.and(self.transmit_planned(packets.select(from..to), state, next));
            }
            if to < lengths.len() {
                sent = sent.and(self.transmit_too_long(packets, to, state, next));
            }
            from = to + 1;
        }
        sent
    }

    /// Sends a burst with too many segments for one, in two.
    #[cold]
    fn transmit_halves(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let (middle, end) = (packets.lengths.len() / 2, packets.lengths.len());
        if middle == 0 {
            self.drops.add(Reason::TooLong, end as u64);
            return Sent { counted: end as u32, ..Sent::default() };
        }
        let first = self.transmit_planned(packets.select(0..middle), state, next);
        first.and(self.transmit_planned(packets.select(middle..end), state, next))
    }

    /// Cuts the packet at `index`, or answers its sender.
    fn transmit_too_long(&self, packets: Packets<'_>, index: usize, state: &mut JoinState, next: Next<'_>) -> Sent {
        // Held packets leave first. No fragment is held, as it would count as a packet.
        let (before, next) = (self.flush_held(state, next), next.last());
        let (frames, next_hop) = (packets.taken, packets.next_hops[index]);
        let longest = room_of(state, next_hop).map_or(0, |room| room.longest());
        let mut cutter = state.cutter.take().unwrap_or_default();
        let sent = match cutter.treat(frames, &frames.as_slice()[index], longest) {
            TooLong::Fragments { len } => cutter.send_fragments(len, |burst| {
                let (frames, next_hops) = (burst.frames(), [next_hop; MAX_BURST]);
                let (lengths, next_hops) = (&lengths(&frames)[..frames.len()], &next_hops[..frames.len()]);
                self.transmit_planned(Packets { taken: frames, alone: frames, lengths, next_hops }, state, next)
            }),
            treatment => {
                if treatment == TooLong::Answer {
                    cutter.answer(&self.member.refusals, self.queue);
                }
                self.drops.add(Reason::TooLong, 1);
                Sent { counted: 1, ..Sent::default() }
            }
        };
        state.cutter = Some(cutter);
        before.and(sent)
    }

    fn flush_held(&self, state: &mut JoinState, next: Next<'_>) -> Sent {
        let JoinState { rules, hops, storage, arena, held, .. } = state;
        if held.is_empty() {
            return Sent::default();
        }
        let rules = &**rules.value();
        let mut burst = storage.start();
        let mut arena = &mut arena[..];
        for (next_hop, slab) in held.iter() {
            let entries = Segment::from(slab.entries());
            let template = rules.hop(next_hop).map(|hop| &rules.hops[hop].template);
            let single = slab.single().filter(|_| !template.is_some_and(Template::is_routed));
            let added = match (single, template) {
                (None, Some(template)) => {
                    let mut sum = Sum::new();
                    if template.wants_sum() {
                        sum.add(slab.entries());
                    }
                    let class = if template.is_routed() { slab.around.class() } else { 0 };
                    let headers = template.headers_of_class(class, slab.count, slab.entries().len() as u32, sum);
                    burst.push_segments([put(&mut arena, &headers), entries])
                }
                (single, _) => burst.push_segments(single.map(Segment::from)),
            };
            debug_assert!(added, "held under these rules");
        }
        let sent = next.transmit(burst.frames());
        let count = Count { rules, hops, traffic: &self.traffic };
        let packets = held.iter().map(|(next_hop, slab)| Contents {
            next_hop: Some(next_hop),
            count: slab.count,
            bytes: slab.bytes.into(),
        });
        let sent = count.those(packets, &burst, sent);
        Sent { held: -held.clear(), ..sent }
    }
}

impl EgressStage for Join {
    fn transmit(&self, frames: Frames<'_>, next: Next<'_>) -> Sent {
        let mut state = self.state.borrow_mut();
        if state.rules.is_outdated() {
            let before = self.take_rules(&mut state, next);
            drop(state);
            return before.and(self.transmit(frames, next));
        }
        // Passed on unchanged, the outcome is written straight to the caller. To move it would wait for the stores of all frames.
        self.transmit_with(frames, &mut state, next)
    }

    fn flush(&self, next: Next<'_>) -> Sent {
        self.flush_held(&mut self.state.borrow_mut(), next)
    }
}

impl Drop for Join {
    /// Counts held packets as dropped: the queue went down in the middle of another worker's round.
    fn drop(&mut self) {
        let held = self.state.get_mut().held.clear();
        if held > 0 {
            self.drops.add(Reason::Down, held as u64);
        }
    }
}

fn room_of(state: &JoinState, next_hop: Option<Nfi>) -> Option<Room> {
    next_hop.and_then(|nfi| state.rules.value().hop(nfi)).map(|hop| state.hops[hop].room)
}

/// Returns the groups to hold, a bit for each.
fn groups_to_hold(plan: &GroupedBurst<'_>, held: &Held) -> u64 {
    let (mut free, mut holds) = (held.free(), 0);
    for (index, group) in plan.groups().iter().enumerate() {
        let new = usize::from(group.held() == 0);
        if plan.is_open(index) && Held::takes(group) && new <= free {
            free -= new;
            holds |= 1 << index;
        }
    }
    holds
}

/// Releases held packets that were sent, and holds the groups in `holds`.
fn hold(held: &mut Held, plan: &GroupedBurst<'_>, holds: u64, frames: &Frames<'_>, sent: Sent) -> Sent {
    let mut change = 0;
    let is_held = |index: usize| holds >> index & 1 == 1;
    let known = || plan.groups().iter().enumerate().filter_map(|(i, group)| Some((i, group, group.next_hop()?)));
    for (_, _, next_hop) in known().filter(|(index, group, _)| !is_held(*index) && group.held() > 0) {
        change -= held.release(next_hop);
    }
    for (_, group, next_hop) in known().filter(|(index, ..)| is_held(*index)) {
        let slab = held.slab(next_hop);
        plan.members(group).for_each(|member| slab.push(frames, &frames.as_slice()[member], group.is_routed()));
        change += i32::from(group.count());
    }
    Sent { held: change, ..sent }
}

/// Returns the length of a frame, or the greatest number for one that is longer: no aggregate has room for either.
#[inline(always)]
fn length_of(frame: &Frame<'_>) -> u16 {
    frame.len().min(u16::MAX.into()) as u16
}

#[inline(always)]
fn lengths(frames: &Frames<'_>) -> [u16; MAX_BURST] {
    let mut lengths = [0; MAX_BURST];
    lengths.iter_mut().zip(frames.as_slice()).for_each(|(length, frame)| *length = length_of(frame));
    lengths
}

/// Reports whether there is nothing to plan: no two of these packets fit into `most` bytes, and if there may be `more`,
/// none fits into half of them. `common` is the length of all, if they have one.
#[inline(always)]
fn are_too_long(frames: &[Frame<'_>], common: Option<u32>, most: u32, more: bool) -> bool {
    let (shortest, second) = match common {
        Some(_) if frames.len() > 1 => (length_of(&frames[0]), length_of(&frames[0])),
        _ => frames.iter().fold((u16::MAX, u16::MAX), |(shortest, second), frame| {
            let len = length_of(frame);
            (shortest.min(len), second.min(shortest.max(len)))
        }),
    };
    let second = if more { shortest } else { second };
    entry_size(shortest) + entry_size(second) > most
}

/// Reports whether the frames have too many segments to be all joined. Only a malicious guest cuts frames like that.
#[inline(always)]
fn has_many_segments(frames: &Frames<'_>) -> bool {
    let cut = frames.as_slice().iter().filter(|frame| !frame.is_contiguous());
    cut.map(|frame| frames.segments(frame).count()).sum::<usize>() > MAX_SEGMENTS - ADDED
}

const _: fn() = || {
    fn moves<T: Send>() {}
    moves::<Join>();
};
