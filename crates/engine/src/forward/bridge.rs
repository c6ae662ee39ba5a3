//! A learning bridge: learns the source of every frame, and sends it to the port of its destination, or to all ports.

use super::Output;
use super::flows::{FlowPlan, Numbered};
use super::mac_table::{Key, Learning, MacTable, TooManyStatics};
use super::vlan::{ADDRESSES, Edit, Membership, TAG, Tag, part};
use crate::drops::{Drops, Reason};
use crate::spec::Vlan;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use virtqueue::{BurstStorage, Ethernet, Frame, Frames, MAX_BURST, Segment};

/// A bridge, as shared by all its workers.
pub struct Bridge {
    /// Its MAC table.
    pub table: MacTable,
    members: Vec<Membership>,
    /// Whether all ports ignore tags.
    flat: bool,
    /// By port: frames received with an unknown destination.
    flooded: Box<[AtomicU64]>,
    /// Port numbers for flows, if controllers decide where frames go.
    pub(crate) flows: Option<Numbered>,
}

impl Bridge {
    /// Returns a bridge of ports with these VLANs. It learns at most `limit` addresses behind each port, and never the
    /// static ones.
    pub fn new(
        vlans: &[Vlan],
        limit: u32,
        ageing_seconds: u32,
        statics: &[(Key, u16)],
    ) -> Result<Bridge, TooManyStatics> {
        Ok(Bridge {
            table: MacTable::new(vlans.len(), limit, ageing_seconds, statics)?,
            members: vlans.iter().map(Membership::new).collect(),
            flat: vlans.iter().all(|v| *v == Vlan::Ignore),
            flooded: vlans.iter().map(|_| AtomicU64::new(0)).collect(),
            flows: None,
        })
    }

    /// Adopts what `other` learned and counted for ports that have a `place` here. No worker may forward meanwhile.
    pub(crate) fn remember(&self, other: &Bridge, now: u32, place: impl Fn(u16) -> Option<u16>) {
        for (port, flooded) in (0..).zip(&other.flooded) {
            if let Some(place) = place(port) {
                self.flooded[usize::from(place)].store(flooded.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.table.remember(&other.table, now, place);
    }

    /// Returns what was learned behind a port, and how many of its frames were flooded because their destination was unknown.
    pub fn learning(&self, port: u16) -> (Learning, u64) {
        (self.table.learning(port), self.flooded[usize::from(port)].load(Ordering::Relaxed))
    }
}

/// A bridge, as one worker forwards through it.
pub(crate) struct BridgePlan {
    pub(crate) bridge: Arc<Bridge>,
    /// The worker's output for each of its ports.
    pub(crate) outputs: Vec<usize>,
    /// The worker's flows, if controllers decide where frames go.
    pub(crate) flows: Option<FlowPlan>,
}

/// Destination of one frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
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

impl BridgePlan {
    /// Forwards a burst.
    #[inline(always)]
    pub(crate) fn forward(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        match &self.flows {
            None => self.learn_and_forward(arrival, scratch),
            Some(flows) => flows.forward(self, arrival, scratch),
        }
    }

    /// Forwards a burst by learned addresses.
    #[inline(always)]
    pub(crate) fn learn_and_forward(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
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
        let mut verdict = Verdict::Group;
        for (i, frame) in frames.as_slice().iter().enumerate() {
            let header = frames.ethernet(frame);
            if last != Some(header) {
                let next = self.decide(&arrival, header, 0);
                if last.is_some() && next != verdict {
                    return self.forward_mixed(arrival, i, [verdict, next], scratch);
                }
                (last, verdict) = (Some(header), next);
            }
        }
        match verdict {
            Verdict::Port(port) => self.output(&arrival, port.into()).transmit(arrival.queue, frames),
            Verdict::Drop(reason) => arrival.drops.add(reason, frames.len() as u64),
            Verdict::Group | Verdict::Unknown => {
                self.send(&arrival, &[verdict; MAX_BURST], &[Tag::NONE; MAX_BURST], scratch);
            }
        }
    }

    /// Forwards a burst without VLANs that goes different ways: frames up to `at` go by the first verdict, and `at` by
    /// the second.
    #[cold]
    fn forward_mixed(&self, arrival: Arrival<'_, '_>, at: usize, [all, another]: [Verdict; 2], scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [all; MAX_BURST];
        verdicts[at] = another;
        for (verdict, frame) in verdicts.iter_mut().zip(frames.as_slice()).skip(at + 1) {
            *verdict = self.decide(&arrival, frames.ethernet(frame), 0);
        }
        self.send(&arrival, &verdicts, &[Tag::NONE; MAX_BURST], scratch);
    }

    #[cold]
    fn forward_tagged(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [Verdict::Drop(Reason::Vlan); MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        for (i, frame) in frames.as_slice().iter().enumerate() {
            if let Some(tag) = self.bridge.members[arrival.from].classify(Tag::read(&frames, frame)) {
                tags[i] = tag;
                verdicts[i] = match self.decide(&arrival, frames.ethernet(frame), tag.vid()) {
                    Verdict::Port(port) if !self.bridge.members[usize::from(port)].carries(tag.vid()) => {
                        Verdict::Drop(Reason::Vlan)
                    }
                    verdict => verdict,
                };
            }
        }
        self.send(&arrival, &verdicts, &tags, scratch);
    }

    /// Learns the source and looks up the destination.
    #[inline(always)]
    fn decide(&self, arrival: &Arrival<'_, '_>, header: Ethernet, vlan: u16) -> Verdict {
        let (destination, source) = (header.destination(), header.source());
        let table = &self.bridge.table;
        let is_group = |address: u64| address & 1 != 0;
        if !is_group(source) {
            table.learn(Key::new(source, vlan), arrival.from as u16, arrival.now);
        }
        if is_group(destination) {
            return Verdict::Group;
        }
        match table.find(Key::new(destination, vlan), arrival.now) {
            Some(port) if usize::from(port) == arrival.from => Verdict::Drop(Reason::Hairpin),
            Some(port) => Verdict::Port(port),
            None => Verdict::Unknown,
        }
    }

    /// Forwards frames of no port, in the VLAN of their tags unless the bridge ignores tags. Learns nothing.
    #[cold]
    pub(crate) fn forward_from_nowhere(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [Verdict::Group; MAX_BURST];
        let mut tags = [Tag::NONE; MAX_BURST];
        for ((verdict, tag), frame) in verdicts.iter_mut().zip(&mut tags).zip(frames.as_slice()) {
            if !self.bridge.flat {
                *tag = Tag::read(&frames, frame);
            }
            let found = self.bridge.table.find(Key::new(frames.ethernet(frame).destination(), tag.vid()), arrival.now);
            *verdict = match found {
                Some(port) if !self.bridge.members[usize::from(port)].carries(tag.vid()) => Verdict::Drop(Reason::Vlan),
                Some(port) => Verdict::Port(port),
                None => Verdict::Unknown,
            };
        }
        self.send(&arrival, &verdicts, &tags, scratch);
    }

    pub(super) fn output<'a>(&self, arrival: &Arrival<'a, '_>, port: usize) -> &'a Output {
        &arrival.outputs[self.outputs[port]]
    }

    /// Sends frames that go different ways, port by port, in order at each port.
    #[cold]
    fn send(
        &self,
        arrival: &Arrival<'_, '_>,
        verdicts: &[Verdict; MAX_BURST],
        tags: &[Tag; MAX_BURST],
        scratch: &mut Scratch,
    ) {
        let frames = arrival.frames;
        // Frames to all ports that have reached none yet, a bit each.
        let mut nowhere = 0u32;
        let mut unknown = 0;
        for (i, verdict) in verdicts[..frames.len()].iter().enumerate() {
            match verdict {
                Verdict::Drop(reason) => arrival.drops.add(*reason, 1),
                Verdict::Group | Verdict::Unknown => nowhere |= 1 << i,
                Verdict::Port(_) => {}
            }
            unknown += u64::from(*verdict == Verdict::Unknown);
        }
        // Packets from controllers come from no port.
        if let Some(flooded) = self.bridge.flooded.get(arrival.from).filter(|_| unknown > 0) {
            flooded.fetch_add(unknown, Ordering::Relaxed);
        }
        for port in (0..self.outputs.len()).filter(|&p| p != arrival.from) {
            let member = &self.bridge.members[port];
            let goes = |i: usize| match verdicts[i] {
                Verdict::Port(to) => usize::from(to) == port,
                Verdict::Group | Verdict::Unknown => member.carries(tags[i].vid()),
                Verdict::Drop(_) => false,
            };
            let mut burst = scratch.edited.start();
            for (i, frame) in frames.as_slice().iter().enumerate().filter(|(i, _)| goes(*i)) {
                nowhere &= !(1 << i);
                let tag = &tags[i];
                let added = match member.egress(tag) {
                    Edit::Keep => burst.push_segments(frames.segments(frame)),
                    Edit::Push => burst.push_segments(tagged(&frames, frame, tag, 0)),
                    Edit::Replace => burst.push_segments(tagged(&frames, frame, tag, TAG)),
                    Edit::Pop => burst.push_segments(untagged(&frames, frame)),
                };
                if !added {
                    // More segments than a burst holds: only when frames in very many segments are edited.
                    arrival.drops.add(Reason::TooLong, 1);
                }
            }
            if !burst.is_empty() {
                self.output(arrival, port).transmit(arrival.queue, burst.frames());
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
