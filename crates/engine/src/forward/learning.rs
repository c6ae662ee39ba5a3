//! Forwarding by learned addresses, in one worker: learns the source of every frame, and sends it to the port of its
//! destination, or to all ports.

use super::bridge::Bridge;
use super::mac_table::Key;
use super::output::Output;
use super::vlan::{ADDRESSES, Edit, TAG, Tag, part};
use crate::drops::{Drops, Reason};
use crate::stage::egress::Outgoing;
use packet::{BurstStorage, Ethernet, Frames, Headers, Heads, Judged, Judging, MAX_BURST, Segment, Selected};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A bridge, as one worker forwards through it by learned addresses.
pub(crate) struct LearningPlan {
    pub(super) bridge: Arc<Bridge>,
    /// The worker's output for each of its places; [`NO_OUTPUT`] where no port stands.
    pub(super) outputs: Vec<usize>,
}

/// The output of a place where no port stands: no plan has so many.
pub(crate) const NO_OUTPUT: usize = usize::MAX;

/// Destination of one frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// To this port of the bridge.
    Port(u16),
    /// To all ports but its source, as it is for a group.
    Group,
    /// To all ports but its source, as its destination is unknown.
    Unknown,
    /// Nowhere.
    Drop(Reason),
}

/// A worker's scratch space, shared by its bridges.
#[derive(Default)]
pub(crate) struct Scratch {
    headers: Box<Headers>,
    heads: Box<Heads>,
    room: Room,
}

/// Room for frames on their way to one output.
#[derive(Default)]
struct Room {
    selected: Box<Selected>,
    edited: Box<BurstStorage>,
}

/// A burst that passes through a bridge.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a, 'b> {
    pub(crate) frames: Frames<'b>,
    /// Port of the bridge, and queue, that it came from.
    pub(crate) from: usize,
    pub(crate) queue: usize,
    /// Seconds since the switch started.
    pub(crate) now: u32,
    pub(crate) outputs: &'a [Output],
    pub(crate) drops: &'a Drops,
}

impl LearningPlan {
    /// Forwards a burst that a port received.
    #[inline(always)]
    pub(super) fn forward(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let arrival = Arrival { frames: arrival.frames.exchangeable(), ..arrival };
        if self.bridge.flat {
            self.forward_flat(arrival, scratch);
        } else {
            self.forward_tagged(arrival, scratch);
        }
    }

    /// Forwards a burst without VLANs. Its frames mostly go the same way, which costs one comparison each.
    // Inlined into a worker's round, its loop lacks registers: a mixed burst costs six instructions a frame more.
    #[inline(never)]
    fn forward_flat(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let Scratch { headers, room, .. } = scratch;
        let mut judging = arrival.frames.judge(headers);
        let mut last = None;
        let mut decision = Decision::Group;
        while let Some(header) = judging.next() {
            if last != Some(header) {
                let next = self.decide(arrival.from, arrival.now, header, 0);
                if last.is_some() && next != decision {
                    return self.forward_mixed(&arrival, judging, [decision, next], room);
                }
                (last, decision) = (Some(header), next);
            }
        }
        let judged = judging.end();
        match decision {
            Decision::Port(port) => {
                let Some(output) = self.find_output(&arrival, port.into()) else {
                    return arrival.drops.add(Reason::NoPort, arrival.frames.len() as u64);
                };
                output.transmit(arrival.queue, Outgoing::Judged(judged, &mut room.edited));
            }
            Decision::Drop(reason) => arrival.drops.add(reason, arrival.frames.len() as u64),
            Decision::Group | Decision::Unknown => {
                self.send(&arrival, &judged, &[decision; MAX_BURST], &[Tag::NONE; MAX_BURST], room);
            }
        }
    }

    /// Forwards a burst without VLANs that goes different ways. Of the frames so far, the last goes by the second of these decisions,
    /// and the others by the first.
    #[cold]
    fn forward_mixed(
        &self,
        arrival: &Arrival<'_, '_>,
        mut judging: Judging<'_, '_>,
        [first, other]: [Decision; 2],
        room: &mut Room,
    ) {
        let mut decisions = [first; MAX_BURST];
        let next = judging.so_far();
        decisions[next - 1] = other;
        for (decision, header) in decisions[next..].iter_mut().zip(&mut judging) {
            *decision = self.decide(arrival.from, arrival.now, header, 0);
        }
        self.send(arrival, &judging.end(), &decisions, &[Tag::NONE; MAX_BURST], room);
    }

    #[cold]
    fn forward_tagged(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let Scratch { heads, room, .. } = scratch;
        self.forward_judged(&arrival, &arrival.frames.judge_heads(heads), room);
    }

    /// Forwards the frames of an arrival by their heads.
    fn forward_judged(&self, arrival: &Arrival<'_, '_>, judged: &Judged<'_>, room: &mut Room) {
        let mut decisions = [Decision::Drop(Reason::Vlan); MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        let mut last = None;
        for (i, head) in judged.heads().iter().enumerate() {
            let header = head.ethernet();
            let read = if self.bridge.flat { Tag::NONE } else { Tag::of(head.bytes()) };
            if last == Some((header, read)) {
                (decisions[i], tags[i]) = (decisions[i - 1], tags[i - 1]);
            } else if let Some(tag) = self.bridge.members[arrival.from].classify(read) {
                tags[i] = tag;
                decisions[i] = match self.decide(arrival.from, arrival.now, header, tag.vid()) {
                    Decision::Port(port) if !self.bridge.carries(port, tag.vid()) => Decision::Drop(Reason::Vlan),
                    decision => decision,
                };
            }
            last = Some((header, read));
        }
        self.send(arrival, judged, &decisions, &tags, room);
    }

    /// Forwards frames of an arrival that flows have matched, or changed.
    pub(super) fn forward_on(&self, arrival: &Arrival<'_, '_>, frames: Outgoing<'_, '_>, scratch: &mut Scratch) {
        match frames {
            Outgoing::Frames(frames) if arrival.from < self.outputs.len() => {
                self.forward(Arrival { frames, ..*arrival }, scratch);
            }
            Outgoing::Frames(frames) => {
                let Scratch { heads, room, .. } = scratch;
                self.forward_from_nowhere(&Arrival { frames, ..*arrival }, &frames.judge_heads(heads), room);
            }
            Outgoing::Judged(judged, _) => {
                let arrival = Arrival { frames: judged.frames(), ..*arrival };
                if arrival.from < self.outputs.len() {
                    self.forward_judged(&arrival, &judged, &mut scratch.room);
                } else {
                    self.forward_from_nowhere(&arrival, &judged, &mut scratch.room);
                }
            }
        }
    }

    /// Returns a test whether a frame, by its header, goes from the bridge's port `from` to this output alone, as it came; it learns
    /// the source. `None` if headers of the Ethernet do not decide that.
    #[inline(always)]
    pub(super) fn only_to(&self, output: usize, from: usize, now: u32) -> Option<impl FnMut(Ethernet) -> bool> {
        let goes = move |header| match self.decide(from, now, header, 0) {
            Decision::Port(port) => self.outputs.get(usize::from(port)) == Some(&output),
            Decision::Group | Decision::Unknown | Decision::Drop(_) => false,
        };
        self.bridge.flat.then_some(goes)
    }

    /// Learns the source, behind the port `from`, and looks up the destination.
    #[inline(always)]
    fn decide(&self, from: usize, now: u32, header: Ethernet, vlan: u16) -> Decision {
        let (destination, source) = (header.destination(), header.source());
        let table = &self.bridge.table;
        let is_group = |address: u64| address & 1 != 0;
        if !is_group(source) {
            table.learn(Key::new(source, vlan), from as u16, now);
        }
        if is_group(destination) {
            return if self.bridge.keeps(destination) { Decision::Drop(Reason::Reserved) } else { Decision::Group };
        }
        match table.find(Key::new(destination, vlan), now) {
            Some(port) if usize::from(port) == from => Decision::Drop(Reason::Hairpin),
            Some(port) => Decision::Port(port),
            None => Decision::Unknown,
        }
    }

    /// Forwards frames of no port, in the VLAN of their tags unless the bridge ignores tags. Learns nothing.
    #[cold]
    fn forward_from_nowhere(&self, arrival: &Arrival<'_, '_>, judged: &Judged<'_>, room: &mut Room) {
        let mut decisions = [Decision::Group; MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        for ((decision, tag), head) in decisions.iter_mut().zip(&mut tags).zip(judged.heads()) {
            if !self.bridge.flat {
                *tag = Tag::of(head.bytes());
            }
            let destination = head.ethernet().destination();
            let found = self.bridge.table.find(Key::new(destination, tag.vid()), arrival.now);
            *decision = match found {
                _ if self.bridge.keeps(destination) => Decision::Drop(Reason::Reserved),
                Some(port) if !self.bridge.carries(port, tag.vid()) => Decision::Drop(Reason::Vlan),
                Some(port) => Decision::Port(port),
                None => Decision::Unknown,
            };
        }
        self.send(arrival, judged, &decisions, &tags, room);
    }

    /// Reports whether a port stands at a place.
    fn has(&self, place: u16) -> bool {
        self.outputs.get(usize::from(place)).is_some_and(|output| *output != NO_OUTPUT)
    }

    /// Returns the output for the port at a place; a port must stand there.
    pub(super) fn output<'a>(&self, arrival: &Arrival<'a, '_>, port: usize) -> &'a Output {
        &arrival.outputs[self.outputs[port]]
    }

    /// Returns the output for a place. A port that has gone is still in the MAC table for a moment, and one that has come may be there
    /// before it is in this plan.
    #[inline(always)]
    fn find_output<'a>(&self, arrival: &Arrival<'a, '_>, place: usize) -> Option<&'a Output> {
        arrival.outputs.get(*self.outputs.get(place)?)
    }

    /// Sends frames that go different ways, port by port, in order at each port.
    #[cold]
    fn send(
        &self,
        arrival: &Arrival<'_, '_>,
        judged: &Judged<'_>,
        decisions: &[Decision; MAX_BURST],
        tags: &[Tag; MAX_BURST],
        room: &mut Room,
    ) {
        let frames = arrival.frames;
        // Frames to all ports that have reached none yet, and those to ports that have gone, a bit each.
        let mut nowhere = 0u32;
        let mut unknown = 0;
        for (i, decision) in decisions[..frames.len()].iter().enumerate() {
            match decision {
                Decision::Drop(reason) => arrival.drops.add(*reason, 1),
                Decision::Group | Decision::Unknown => nowhere |= 1 << i,
                Decision::Port(port) => nowhere |= u32::from(!self.has(*port)) << i,
            }
            unknown += u64::from(*decision == Decision::Unknown);
        }
        // Packets from controllers come from no port.
        if let Some(flooded) = self.bridge.flooded.get(arrival.from).filter(|_| unknown > 0) {
            flooded.fetch_add(unknown, Ordering::Relaxed);
        }
        for port in (0..self.outputs.len()).filter(|&p| p != arrival.from) {
            let member = &self.bridge.members[port];
            let goes = |i: &usize| match decisions[*i] {
                Decision::Port(to) => usize::from(to) == port,
                Decision::Group | Decision::Unknown => member.carries(tags[*i].vid()),
                Decision::Drop(_) => false,
            };
            if !self.has(port as u16) {
                continue;
            }
            let chosen = (0..frames.len()).filter(goes);
            let (mut any, mut edits) = (false, false);
            for i in chosen.clone() {
                nowhere &= !(1 << i);
                (any, edits) = (true, edits || member.egress(&tags[i]) != Edit::Keep);
            }
            if !any {
                continue;
            }
            let output = self.output(arrival, port);
            if edits {
                self.send_edited(arrival, judged, chosen.map(|i| (i, member.egress(&tags[i]), &tags[i])), output, room);
            } else {
                // Frames that go to several ports have no chain here, and are copied.
                let chosen = chosen.map(|i| (i, !matches!(decisions[i], Decision::Port(_))));
                let judged = judged.select(chosen, &mut room.selected);
                output.transmit(arrival.queue, Outgoing::Judged(judged, &mut room.edited));
            }
        }
        if nowhere != 0 {
            arrival.drops.add(Reason::NoPort, nowhere.count_ones().into());
        }
    }

    /// Sends frames to one output, some of them with other tags.
    fn send_edited<'t>(
        &self,
        arrival: &Arrival<'_, '_>,
        judged: &Judged<'_>,
        chosen: impl Iterator<Item = (usize, Edit, &'t Tag)>,
        output: &Output,
        room: &mut Room,
    ) {
        let mut burst = room.edited.start();
        burst.set_offer_of(&arrival.frames);
        for (i, edit, tag) in chosen {
            let frame = &arrival.frames.as_slice()[i];
            let head = || part(judged.segments(i), 0, ADDRESSES);
            let behind = |from| part(judged.segments(i), from, u32::MAX);
            let tag = || Segment::from(&tag.bytes()[..]);
            let added = match edit {
                Edit::Keep => judged.add_one(i, &mut burst),
                Edit::Push => burst.push_rebuilt(frame, TAG as i32, head().chain([tag()]).chain(behind(ADDRESSES))),
                Edit::Replace => burst.push_rebuilt(frame, 0, head().chain([tag()]).chain(behind(ADDRESSES + TAG))),
                Edit::Pop => burst.push_rebuilt(frame, -(TAG as i32), head().chain(behind(ADDRESSES + TAG))),
            };
            if !added {
                // More segments than a burst holds: only when frames in very many segments are edited.
                arrival.drops.add(Reason::TooLong, 1);
            }
        }
        if !burst.is_empty() {
            output.transmit(arrival.queue, Outgoing::Frames(burst.frames().exchangeable()));
        }
    }
}
