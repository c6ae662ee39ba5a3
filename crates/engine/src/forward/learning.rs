//! Forwarding by learned addresses, in one worker: learns the source of every frame, and sends it to the port of its
//! destination, or to all ports.

use super::bridge::Bridge;
use super::mac_table::Key;
use super::output::Output;
use super::vlan::{ADDRESSES, Edit, TAG, Tag, part};
use crate::drops::{Drops, Reason};
use packet::{BurstStorage, Ethernet, Frame, Frames, MAX_BURST, Segment};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A bridge, as one worker forwards through it by learned addresses.
pub(crate) struct LearningPlan {
    pub(super) bridge: Arc<Bridge>,
    /// The worker's output for each of its ports.
    pub(super) outputs: Vec<usize>,
}

/// Where one frame goes.
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
        if self.bridge.flat {
            self.forward_flat(arrival, scratch);
        } else {
            self.forward_tagged(arrival, scratch);
        }
    }

    /// Forwards a burst without VLANs. Its frames mostly go the same way, which costs one comparison each.
    #[inline(always)]
    fn forward_flat(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut last = None;
        let mut decision = Decision::Group;
        for (i, frame) in frames.as_slice().iter().enumerate() {
            let header = frames.ethernet(frame);
            if last != Some(header) {
                let next = self.decide(&arrival, header, 0);
                if last.is_some() && next != decision {
                    return self.forward_mixed(arrival, i, decision, next, scratch);
                }
                (last, decision) = (Some(header), next);
            }
        }
        match decision {
            Decision::Port(port) => self.output(&arrival, port.into()).transmit(arrival.queue, frames.exchangeable()),
            Decision::Drop(reason) => arrival.drops.add(reason, frames.len() as u64),
            Decision::Group | Decision::Unknown => {
                self.send(&arrival, &[decision; MAX_BURST], &[Tag::NONE; MAX_BURST], scratch);
            }
        }
    }

    /// Forwards a burst without VLANs that goes different ways: frames up to `at` go by the first decision, and `at` by
    /// the second.
    #[cold]
    fn forward_mixed(
        &self,
        arrival: Arrival<'_, '_>,
        at: usize,
        first: Decision,
        other: Decision,
        scratch: &mut Scratch,
    ) {
        let frames = arrival.frames;
        let mut decisions = [first; MAX_BURST];
        decisions[at] = other;
        for (decision, frame) in decisions.iter_mut().zip(frames.as_slice()).skip(at + 1) {
            *decision = self.decide(&arrival, frames.ethernet(frame), 0);
        }
        self.send(&arrival, &decisions, &[Tag::NONE; MAX_BURST], scratch);
    }

    #[cold]
    fn forward_tagged(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut decisions = [Decision::Drop(Reason::Vlan); MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        for (i, frame) in frames.as_slice().iter().enumerate() {
            if let Some(tag) = self.bridge.members[arrival.from].classify(Tag::read(&frames, frame)) {
                tags[i] = tag;
                decisions[i] = match self.decide(&arrival, frames.ethernet(frame), tag.vid()) {
                    Decision::Port(port) if !self.bridge.members[usize::from(port)].carries(tag.vid()) => {
                        Decision::Drop(Reason::Vlan)
                    }
                    decision => decision,
                };
            }
        }
        self.send(&arrival, &decisions, &tags, scratch);
    }

    /// Learns the source and looks up the destination.
    #[inline(always)]
    fn decide(&self, arrival: &Arrival<'_, '_>, header: Ethernet, vlan: u16) -> Decision {
        let (destination, source) = (header.destination(), header.source());
        let table = &self.bridge.table;
        let is_group = |address: u64| address & 1 != 0;
        if !is_group(source) {
            table.learn(Key::new(source, vlan), arrival.from as u16, arrival.now);
        }
        if is_group(destination) {
            return Decision::Group;
        }
        match table.find(Key::new(destination, vlan), arrival.now) {
            Some(port) if usize::from(port) == arrival.from => Decision::Drop(Reason::Hairpin),
            Some(port) => Decision::Port(port),
            None => Decision::Unknown,
        }
    }

    /// Forwards frames of no port, in the VLAN of their tags unless the bridge ignores tags. Learns nothing.
    #[cold]
    pub(super) fn forward_from_nowhere(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut decisions = [Decision::Group; MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        for ((decision, tag), frame) in decisions.iter_mut().zip(&mut tags).zip(frames.as_slice()) {
            if !self.bridge.flat {
                *tag = Tag::read(&frames, frame);
            }
            let found = self.bridge.table.find(Key::new(frames.ethernet(frame).destination(), tag.vid()), arrival.now);
            *decision = match found {
                Some(port) if !self.bridge.members[usize::from(port)].carries(tag.vid()) => {
                    Decision::Drop(Reason::Vlan)
                }
                Some(port) => Decision::Port(port),
                None => Decision::Unknown,
            };
        }
        self.send(&arrival, &decisions, &tags, scratch);
    }

    pub(super) fn output<'a>(&self, arrival: &Arrival<'a, '_>, port: usize) -> &'a Output {
        &arrival.outputs[self.outputs[port]]
    }

    /// Sends frames that go different ways, port by port, in order at each port.
    #[cold]
    fn send(
        &self,
        arrival: &Arrival<'_, '_>,
        decisions: &[Decision; MAX_BURST],
        tags: &[Tag; MAX_BURST],
        scratch: &mut Scratch,
    ) {
        let frames = arrival.frames;
        // Frames to all ports that have reached none yet, a bit each.
        let mut nowhere = 0u32;
        let mut unknown = 0;
        for (i, decision) in decisions[..frames.len()].iter().enumerate() {
            match decision {
                Decision::Drop(reason) => arrival.drops.add(*reason, 1),
                Decision::Group | Decision::Unknown => nowhere |= 1 << i,
                Decision::Port(_) => {}
            }
            unknown += u64::from(*decision == Decision::Unknown);
        }
        // Packets from controllers come from no port.
        if let Some(flooded) = self.bridge.flooded.get(arrival.from).filter(|_| unknown > 0) {
            flooded.fetch_add(unknown, Ordering::Relaxed);
        }
        for port in (0..self.outputs.len()).filter(|&p| p != arrival.from) {
            let member = &self.bridge.members[port];
            let goes = |i: usize| match decisions[i] {
                Decision::Port(to) => usize::from(to) == port,
                Decision::Group | Decision::Unknown => member.carries(tags[i].vid()),
                Decision::Drop(_) => false,
            };
            let mut burst = scratch.edited.start();
            burst.set_offer_of(&frames);
            for (i, frame) in frames.as_slice().iter().enumerate().filter(|(i, _)| goes(*i)) {
                nowhere &= !(1 << i);
                let (tag, origin) = (&tags[i], frame.cut_origin());
                let added = match member.egress(tag) {
                    Edit::Keep if matches!(decisions[i], Decision::Port(_)) => burst.push_frame(&frames, frame),
                    Edit::Keep => burst.push_segments_from(frames.segments(frame), origin),
                    Edit::Push => burst.push_segments_from(tagged(&frames, frame, tag, 0), origin),
                    Edit::Replace => burst.push_segments_from(tagged(&frames, frame, tag, TAG), origin),
                    Edit::Pop => burst.push_segments_from(untagged(&frames, frame), origin),
                };
                if !added {
                    // More segments than a burst holds: only when frames in very many segments are edited.
                    arrival.drops.add(Reason::TooLong, 1);
                }
            }
            if !burst.is_empty() {
                // Frames that go to several ports have no chain here, and are copied.
                self.output(arrival, port).transmit(arrival.queue, burst.frames().exchangeable());
                frames.keep_places(burst.kept());
            }
        }
        if nowhere != 0 {
            arrival.drops.add(Reason::NoPort, nowhere.count_ones().into());
        }
    }
}

/// Returns `frame` with a tag in place of its first `without` bytes behind the addresses.
fn tagged<'b>(frames: &Frames<'b>, frame: &Frame<'b>, tag: &'b Tag, without: u32) -> impl Iterator<Item = Segment<'b>> {
    let before = part(frames, frame, 0, ADDRESSES);
    before.chain([Segment::from(&tag.bytes()[..])]).chain(part(frames, frame, ADDRESSES + without, u32::MAX))
}

/// Returns `frame` without its tag.
fn untagged<'b>(frames: &Frames<'b>, frame: &Frame<'b>) -> impl Iterator<Item = Segment<'b>> {
    part(frames, frame, 0, ADDRESSES).chain(part(frames, frame, ADDRESSES + TAG, u32::MAX))
}
