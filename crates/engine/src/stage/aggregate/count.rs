//! Counting of a sent burst. The worker counts packets; this module counts the frames that held them.

use super::counters::{HopCounters, Traffic, WireFrame};
use super::held::{Held, Slab};
use crate::port::Sent;
use packet::{Burst, MAX_BURST};
use paflow::plan::{Group, GroupedBurst, Room};
use paflow::{AggregationRules, Nfi};
use std::cmp::Reverse;
use std::sync::Arc;

/// Groups of a burst that leave now, each as one frame.
pub(super) struct Leaving<'x> {
    pub(super) plan: &'x GroupedBurst<'x>,
    /// A bit for each group that is held instead.
    pub(super) holds: u64,
    /// Packets held before, which leave with the groups that include them.
    pub(super) held: &'x Held,
    pub(super) lengths: &'x [u16],
}

impl<'x> Leaving<'x> {
    pub(super) fn groups(&self) -> impl Iterator<Item = &'x Group> + Clone {
        let (holds, groups) = (self.holds, self.plan.groups().iter().enumerate());
        groups.filter(move |(index, _)| holds >> index & 1 == 0).map(|(_, group)| group)
    }

    /// Returns the packets held before that leave with a group.
    fn held_of(&self, group: &Group) -> Option<&'x Slab> {
        group.next_hop().filter(|_| group.held() > 0).and_then(|nfi| self.held.of(nfi))
    }

    #[inline(always)]
    fn packets(&self, group: &Group) -> u16 {
        group.count() + if group.held() == 0 { 0 } else { self.held_of(group).map_or(0, |slab| slab.count) }
    }

    fn bytes(&self, group: &Group) -> u64 {
        let own: u64 = self.plan.members(group).map(|member| u64::from(self.lengths[member])).sum();
        own + self.held_of(group).map_or(0, |slab| u64::from(slab.bytes))
    }
}

/// A next hop of the rules, for one queue.
pub(super) struct HopState {
    /// The room in an aggregate; none if it is not behind this port.
    pub(super) room: Room,
    pub(super) counters: Arc<HopCounters>,
}

/// Packets that leave as one frame.
pub(super) struct Contents {
    pub(super) next_hop: Option<Nfi>,
    pub(super) count: u16,
    pub(super) bytes: u64,
}

/// A frame that was sent.
#[derive(Clone, Copy)]
struct SentFrame {
    next_hop: Option<Nfi>,
    len: u32,
    packets: u16,
    is_aggregate: bool,
}

/// Sums of a run of aggregates to one next hop.
#[derive(Clone, Copy, Default)]
struct Totals {
    aggregates: u64,
    packets: u64,
}

/// Counts frames by next hop.
pub(super) struct Count<'x> {
    pub(super) rules: &'x AggregationRules,
    pub(super) hops: &'x [HopState],
    pub(super) traffic: &'x Traffic,
}

impl Count<'_> {
    /// Counts frames. Frames to one next hop come in runs, and a run is counted at once.
    #[inline(always)]
    fn frames(&self, frames: impl Iterator<Item = SentFrame> + Clone) {
        self.traffic.sent.count(frames.clone().map(|SentFrame { len, packets, is_aggregate, .. }| WireFrame {
            len,
            packets: packets.into(),
            is_aggregate,
        }));
        let (mut to, mut run) = (None, Totals::default());
        for SentFrame { next_hop, packets, .. } in frames.filter(|frame| frame.is_aggregate) {
            if next_hop != to {
                self.hop(to, run);
                (to, run) = (next_hop, Totals::default());
            }
            run.aggregates += 1;
            run.packets += u64::from(packets);
        }
        self.hop(to, run);
    }

    #[inline(always)]
    fn hop(&self, next_hop: Option<Nfi>, run: Totals) {
        if let Some(hop) = next_hop.and_then(|nfi| self.rules.hop(nfi)) {
            let counters = &self.hops[hop].counters;
            counters.aggregates.add(run.aggregates);
            counters.packets.add(run.packets);
        }
    }

    /// Counts groups sent as one frame each, and converts the outcome from frames to packets.
    #[inline(always)]
    pub(super) fn joined(&self, leaving: &Leaving<'_>, burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        if sent.frames as usize != burst.len() {
            return self.some(leaving, burst, sent);
        }
        let frames = burst.frames();
        let all = leaving.groups().zip(frames.as_slice());
        self.frames(all.map(|(group, frame)| SentFrame {
            next_hop: group.next_hop(),
            len: frame.len(),
            packets: leaving.packets(group),
            is_aggregate: group.is_routed() || leaving.packets(group) > 1,
        }));
        if leaving.holds == 0 && leaving.held.is_empty() {
            let bytes = leaving.lengths.iter().map(|&len| u64::from(len)).sum();
            return Sent { frames: leaving.lengths.len() as u32, bytes, ..sent };
        }
        let told = leaving.groups().map(|group| (u32::from(leaving.packets(group)), leaving.bytes(group)));
        let (frames, bytes) = told.fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
        Sent { frames, bytes, ..sent }
    }

    /// Counts a burst sent in part. Frames went in order up to some frame, and of those before it the longest were too long.
    #[cold]
    fn some(&self, leaving: &Leaving<'_>, burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let frames = leaving.groups().map(|group| Contents {
            next_hop: group.next_hop(),
            count: leaving.packets(group),
            bytes: leaving.bytes(group),
        });
        self.those(frames, burst, sent)
    }

    /// The same for any frames, of which the packets are known.
    pub(super) fn those(&self, all: impl Iterator<Item = Contents>, burst: &Burst<'_, '_>, sent: Sent) -> Sent {
        let frames = burst.frames();
        let tried = ((sent.frames + sent.too_long + sent.refused) as usize).min(frames.len());
        let mut by_length: [usize; MAX_BURST] = std::array::from_fn(|index| index);
        if sent.too_long > 0 {
            by_length[..tried].sort_unstable_by_key(|&index| Reverse(frames.as_slice()[index].len()));
        }
        let too_long = &by_length[..(sent.too_long as usize).min(tried)];
        let mut outcome = Sent { rest: sent.rest, counted: sent.counted, ..Sent::default() };
        let mut gone = 0;
        for (index, (Contents { next_hop, count, bytes }, frame)) in all.zip(frames.as_slice()).enumerate() {
            if too_long.contains(&index) {
                outcome.too_long += u32::from(count);
                continue;
            }
            gone += 1;
            if gone <= sent.frames {
                let hop = next_hop.and_then(|nfi| self.rules.hop(nfi));
                let is_aggregate = count > 1 || hop.is_some_and(|hop| self.hops[hop].room.routed);
                let len = frame.len();
                self.frames(std::iter::once(SentFrame { next_hop, len, packets: count, is_aggregate }));
                outcome.frames += u32::from(count);
                outcome.bytes += bytes;
            } else if gone <= sent.frames + sent.refused {
                outcome.refused += u32::from(count);
            }
        }
        outcome
    }
}
