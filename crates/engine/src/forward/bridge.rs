//! A learning bridge: every frame teaches where its source is and goes where its destination was seen, or everywhere.

use super::Output;
use super::flows::{FlowPlan, Numbered};
use super::mac_table::{Key, MacTable};
use super::vlan::{ADDRESSES, Edit, Membership, TAG, part, tag, vid};
use crate::drops::{Drops, Reason};
use crate::spec::Vlan;
use std::sync::Arc;
use virtqueue::{BurstStorage, Ethernet, Frame, Frames, MAX_BURST, Segment};

/// A bridge as all its workers share it.
pub struct Bridge {
    /// Its addresses.
    pub table: MacTable,
    members: Vec<Membership>,
    /// No port looks at tags.
    flat: bool,
    /// What it forwards by, if controllers say where frames go.
    pub(crate) flows: Option<Numbered>,
}

impl Bridge {
    /// A bridge of ports with these VLANs.
    pub fn new(vlans: &[Vlan], ageing_seconds: u32) -> Bridge {
        let members = vlans.iter().map(Membership::new).collect();
        let flat = vlans.iter().all(|v| *v == Vlan::Ignore);
        Bridge { table: MacTable::new(4096, ageing_seconds), members, flat, flows: None }
    }
}

/// A bridge as one worker forwards through it.
pub(crate) struct BridgePlan {
    pub(crate) bridge: Arc<Bridge>,
    /// For each of its ports, the worker's output.
    pub(crate) outputs: Vec<usize>,
    /// What the worker goes by, if controllers say where frames go.
    pub(crate) flows: Option<FlowPlan>,
}

/// Where one frame goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// To this port of the bridge.
    Port(u16),
    /// To all ports but the one that it came from.
    Flood,
    /// Nowhere.
    Drop(Reason),
}

/// What a worker keeps from burst to burst, for all its bridges.
#[derive(Default)]
pub(crate) struct Scratch {
    edited: Box<BurstStorage>,
}

/// A burst on its way through a bridge.
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

    /// Forwards a burst by what is known of addresses.
    #[inline(always)]
    pub(crate) fn learn_and_forward(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        if self.bridge.flat {
            self.forward_flat(arrival, scratch);
        } else {
            self.forward_tagged(arrival, scratch);
        }
    }

    /// Without VLANs. Frames of one burst mostly go the same way, which costs one comparison each.
    #[inline(always)]
    fn forward_flat(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut last = None;
        let mut verdict = Verdict::Flood;
        for frame in frames.as_slice() {
            let header = frames.ethernet(frame);
            if last != Some(header) {
                let next = self.decide(&arrival, header, 0);
                if last.is_some() && next != verdict {
                    return self.forward_mixed(arrival, scratch);
                }
                (last, verdict) = (Some(header), next);
            }
        }
        match verdict {
            Verdict::Port(port) => self.output(&arrival, port.into()).transmit(arrival.queue, frames),
            Verdict::Drop(reason) => arrival.drops.add(reason, frames.len() as u64),
            Verdict::Flood => self.send(&arrival, &[verdict; MAX_BURST], &[(0, false); MAX_BURST], scratch),
        }
    }

    /// Without VLANs, and frames go different ways: looks at each one again.
    #[cold]
    fn forward_mixed(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [Verdict::Flood; MAX_BURST];
        for (verdict, frame) in verdicts.iter_mut().zip(frames.as_slice()) {
            *verdict = self.decide(&arrival, frames.ethernet(frame), 0);
        }
        self.send(&arrival, &verdicts, &[(0, false); MAX_BURST], scratch);
    }

    #[cold]
    fn forward_tagged(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [Verdict::Drop(Reason::Vlan); MAX_BURST];
        let mut tags = [(0, false); MAX_BURST];
        for (i, frame) in frames.as_slice().iter().enumerate() {
            if let Some((vid, tagged)) = self.bridge.members[arrival.from].classify(&frames, frame) {
                tags[i] = (vid, tagged);
                verdicts[i] = match self.decide(&arrival, frames.ethernet(frame), vid) {
                    Verdict::Port(port) if !self.bridge.members[usize::from(port)].carries(vid) => {
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
            return Verdict::Flood;
        }
        match table.find(Key::new(destination, vlan), arrival.now) {
            Some(port) if usize::from(port) == arrival.from => Verdict::Drop(Reason::Hairpin),
            Some(port) => Verdict::Port(port),
            None => Verdict::Flood,
        }
    }

    /// Forwards frames of no port: in the VLAN of their tags, if that is of interest, and nothing is learned.
    #[cold]
    pub(crate) fn forward_from_nowhere(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let frames = arrival.frames;
        let mut verdicts = [Verdict::Flood; MAX_BURST];
        let mut tags = [(0, false); MAX_BURST];
        for ((verdict, tag), frame) in verdicts.iter_mut().zip(&mut tags).zip(frames.as_slice()) {
            if let Some(vid) = vid(&frames, frame).filter(|_| !self.bridge.flat) {
                *tag = (vid, true);
            }
            let found = self.bridge.table.find(Key::new(frames.ethernet(frame).destination(), tag.0), arrival.now);
            *verdict = match found {
                Some(port) if !self.bridge.members[usize::from(port)].carries(tag.0) => Verdict::Drop(Reason::Vlan),
                Some(port) => Verdict::Port(port),
                None => Verdict::Flood,
            };
        }
        self.send(&arrival, &verdicts, &tags, scratch);
    }

    pub(super) fn output<'a>(&self, arrival: &Arrival<'a, '_>, port: usize) -> &'a Output {
        &arrival.outputs[self.outputs[port]]
    }

    /// Sends frames that go different ways, port by port, each port's in their order.
    #[cold]
    fn send(
        &self,
        arrival: &Arrival<'_, '_>,
        verdicts: &[Verdict; MAX_BURST],
        tags: &[(u16, bool); MAX_BURST],
        scratch: &mut Scratch,
    ) {
        let frames = arrival.frames;
        for verdict in &verdicts[..frames.len()] {
            match verdict {
                Verdict::Drop(reason) => arrival.drops.add(*reason, 1),
                Verdict::Flood if self.outputs.len() < 2 => arrival.drops.add(Reason::NoPort, 1),
                _ => {}
            }
        }
        for port in (0..self.outputs.len()).filter(|&p| p != arrival.from) {
            let member = &self.bridge.members[port];
            let goes = |i: usize| match verdicts[i] {
                Verdict::Port(to) => usize::from(to) == port,
                Verdict::Flood => member.carries(tags[i].0),
                Verdict::Drop(_) => false,
            };
            let tag_bytes: [[u8; 4]; MAX_BURST] = std::array::from_fn(|i| tag(tags[i].0));
            let mut burst = scratch.edited.start();
            for (i, frame) in frames.as_slice().iter().enumerate().filter(|(i, _)| goes(*i)) {
                let added = match member.egress(tags[i].1) {
                    Edit::Keep => burst.push_segments(frames.segments(frame)),
                    Edit::Push => burst.push_segments(pushed(&frames, frame, &tag_bytes[i])),
                    Edit::Pop => burst.push_segments(popped(&frames, frame)),
                };
                if !added {
                    // More segments than a burst holds: only by editing frames that were cut into very many.
                    arrival.drops.add(Reason::TooLong, 1);
                }
            }
            if !burst.is_empty() {
                self.output(arrival, port).transmit(arrival.queue, burst.frames());
            }
        }
    }
}

/// `frame` with a tag.
fn pushed<'b>(frames: &Frames<'b>, frame: &Frame<'b>, tag: &'b [u8; 4]) -> impl Iterator<Item = Segment<'b>> {
    let before = part(frames, frame, 0, ADDRESSES);
    before.chain([Segment::from(&tag[..])]).chain(part(frames, frame, ADDRESSES, u32::MAX))
}

/// `frame` without its tag.
fn popped<'b>(frames: &Frames<'b>, frame: &Frame<'b>) -> impl Iterator<Item = Segment<'b>> {
    part(frames, frame, 0, ADDRESSES).chain(part(frames, frame, ADDRESSES + TAG, u32::MAX))
}
