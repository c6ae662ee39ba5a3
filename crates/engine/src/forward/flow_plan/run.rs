//! Sends the frames of a burst along their paths, from output to output.

use super::super::flows::{Flows, Next, Path};
use super::super::learning::Scratch;
use super::super::vlan::part;
use super::FlowPlan;
use super::received::{NOWHERE, Received};
use super::work::{Work, bits};
use crate::drops::Reason;
use handover::Punt;
use openflow::rewrite::Headers;
use openflow::{Action, Cache, Excess, Group, Key, PacketInReason, Rule, To, Undone};
use packet::MAX_BURST;

/// A frame of a burst, by its index, and the flow that it follows.
#[derive(Clone, Copy)]
struct Following<'f> {
    frame: usize,
    rule: &'f Rule,
}

/// A copy of a frame that controllers get.
#[derive(Clone, Copy)]
struct Show {
    reason: PacketInReason,
    /// Whether they get its bytes, and not only that it came.
    whole: bool,
}

/// Outputs of frames that are chosen and not yet done; the others are in [`Work`].
#[derive(Default)]
struct Chosen {
    /// Frames whose headers have changed.
    edited: u32,
    /// Frames that go where a learning bridge sends them.
    normal: u32,
    /// Whether controllers have been sent something.
    punted: bool,
}

impl Chosen {
    /// Changes a frame, which must be dropped if that can't be done.
    fn change(
        &mut self,
        received: Received<'_>,
        frame: usize,
        actions: &[Action],
        work: &mut Work,
    ) -> Result<(), Undone> {
        if actions.is_empty() {
            return Ok(());
        }
        let headers = self.edit(received, frame, work);
        let more = |at: usize, into: &mut [u8]| received.copy(frame, at, into);
        actions.iter().try_for_each(|action| headers.apply(action, more))
    }

    /// Returns the headers of a frame that is changed.
    fn edit<'w>(&mut self, received: Received<'_>, frame: usize, work: &'w mut Work) -> &'w mut Headers {
        let was_edited = self.is_edited(frame);
        self.edited |= 1 << frame;
        work.edit(received, frame, was_edited)
    }

    /// Reports whether the headers of a frame have changed.
    #[inline(always)]
    fn is_edited(&self, frame: usize) -> bool {
        self.edited & 1 << frame != 0
    }
}

impl FlowPlan {
    /// Goes along the paths of frames from output to output, as a frame may change between two outputs.
    #[inline(never)]
    pub(super) fn run(
        &self,
        received: Received<'_>,
        flows: &Flows,
        cache: &mut Cache<Key, Path>,
        work: &mut Work,
        scratch: &mut Scratch,
    ) {
        let Received { arrival, judged, in_port, .. } = received;
        let mut on_the_way = u32::MAX >> (MAX_BURST - arrival.frames.len());
        let mut chosen = Chosen::default();
        work.allow_outputs();
        while on_the_way != 0 {
            for frame in bits(on_the_way) {
                let bit = 1 << frame;
                // To its next output.
                let sent = loop {
                    match work.walks[frame].next(flows) {
                        Next::Act { changes, to, rule } => {
                            if let Err(undone) = chosen.change(received, frame, changes, work) {
                                self.give_up(received, Following { frame, rule }, undone, &mut chosen, work);
                                on_the_way &= !bit;
                                break None;
                            }
                            if let Some(to) = to {
                                break Some((to, Following { frame, rule }));
                            }
                        }
                        Next::Measure(meter) => {
                            if !self.passes_meter(received, flows, frame, meter, &mut chosen, work) {
                                arrival.drops.add(Reason::Meter, 1);
                                on_the_way &= !bit;
                                break None;
                            }
                        }
                        Next::LookUp(table) => {
                            let key = work.key(&judged, frame, chosen.is_edited(frame), in_port);
                            let key = key.at(table, work.walks[frame].metadata);
                            let path = self.find(flows, cache, &key, || key, table);
                            let len = u64::from(arrival.frames.as_slice()[frame].len());
                            path.slots().iter().for_each(|slot| self.lane.add(*slot, 1, len));
                            work.walks[frame].go_on(path);
                        }
                        Next::End => {
                            if let Some(reason) = work.walks[frame].drop_reason(flows) {
                                arrival.drops.add(reason, 1);
                            }
                            on_the_way &= !bit;
                            break None;
                        }
                    }
                };
                let Some((to, following)) = sent else { continue };
                let mut may_go_on = work.take_outputs(frame, self.outputs_of(to));
                match to {
                    _ if !may_go_on => {}
                    To::Group(id) => match flows.rules.group(id) {
                        Some(group) => {
                            may_go_on = self.send_to_group(received, following, group, &mut chosen, work, scratch);
                        }
                        None => arrival.drops.add(Reason::UnknownPort, 1),
                    },
                    to => self.choose(received, following, to, &mut chosen, work),
                }
                if !may_go_on {
                    arrival.drops.add(Reason::Outputs, 1);
                    on_the_way &= !bit;
                }
            }
            self.send(received, &mut chosen, work, scratch);
        }
        if chosen.punted {
            self.notifier.notify();
        }
    }

    /// Drops the only frame of a burst, which can't be changed as a controller wants.
    pub(super) fn drop_one(&self, received: Received<'_>, undone: Undone, flows: &Flows, work: &mut Work) {
        let mut chosen = Chosen::default();
        let following = Following { frame: 0, rule: flows.no_flow() };
        self.give_up(received, following, undone, &mut chosen, work);
        if chosen.punted {
            self.notifier.notify();
        }
    }

    /// Returns the number of outputs that an action counts for. Buckets of a group are counted one by one.
    fn outputs_of(&self, to: To) -> usize {
        /// A flood leaves a frame some outputs, in the largest bridge, too.
        const MOST: usize = 64;
        match to {
            To::Flood | To::Normal => self.numbers.len().min(MOST),
            To::Port(_) | To::InPort | To::Group(_) | To::Controller { .. } => 1,
        }
    }

    /// Measures a frame by the meter of this number. Returns false if it is beyond a rate and must be dropped.
    #[inline(never)]
    fn passes_meter(
        &self,
        received: Received<'_>,
        flows: &Flows,
        frame: usize,
        meter: u32,
        chosen: &mut Chosen,
        work: &mut Work,
    ) -> bool {
        // Flows end with their meters: a meter that is unknown here does not exist any more.
        let Some(meter) = flows.rules.meter(meter) else { return true };
        let len = u64::from(received.arrival.frames.as_slice()[frame].len());
        self.lane.add(meter.tally.index(), 1, len);
        let Some(band) = meter.measure(self.clock.nanos(), len) else { return true };
        self.lane.add(band.tally.index(), 1, len);
        if let Excess::Remark(levels) = band.excess {
            chosen.edit(received, frame, work).raise_drop_precedence(levels);
        }
        band.excess != Excess::Drop
    }

    /// Notes an output of a frame.
    #[inline(always)]
    fn choose(&self, received: Received<'_>, following: Following<'_>, to: To, chosen: &mut Chosen, work: &mut Work) {
        let Following { frame, rule } = following;
        let Received { ref arrival, in_port, .. } = received;
        let bit = 1 << frame;
        match to {
            To::Port(number) if number == in_port => arrival.drops.add(Reason::Hairpin, 1),
            To::Port(number) => work.send_to(self.port(number), bit, arrival),
            To::InPort => work.send_to(arrival.from, bit, arrival),
            To::Flood => {
                let others = work.masks.iter_mut().enumerate().filter(|(port, _)| *port != arrival.from);
                if others.map(|(_, mask)| *mask |= bit).count() == 0 {
                    arrival.drops.add(Reason::NoPort, 1);
                }
            }
            To::Normal => chosen.normal |= bit,
            // Of what controllers are sent, this forbids table misses only (Section 7.2.1).
            To::Controller { .. } if rule.is_miss && received.source().is_some_and(|port| !port.shows_misses()) => {
                arrival.drops.add(Reason::NoPacketIn, 1);
            }
            To::Controller { whole } => {
                let reason = if rule.is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
                if self.wanted.get().has(reason) {
                    self.punt(received, following, Show { reason, whole }, chosen, work);
                } else {
                    arrival.drops.add(Reason::Unwanted, 1);
                }
            }
            // Groups in groups are refused.
            To::Group(_) => arrival.drops.add(Reason::UnknownPort, 1),
        }
    }

    /// Sends frames to their outputs.
    #[inline(always)]
    fn send(&self, received: Received<'_>, chosen: &mut Chosen, work: &mut Work, scratch: &mut Scratch) {
        let Received { bridge, ref arrival, ref judged, .. } = received;
        for port in 0..work.masks.len() {
            let mask = std::mem::take(&mut work.masks[port]);
            if mask != 0 {
                let output = bridge.output(arrival, port);
                work.select(judged, arrival, mask, chosen.edited, |frames| output.transmit(arrival.queue, frames));
            }
        }
        let normal = std::mem::take(&mut chosen.normal);
        if normal != 0 {
            work.select(judged, arrival, normal, chosen.edited, |frames| bridge.forward_on(arrival, frames, scratch));
        }
    }

    /// Sends copies of a frame to the buckets of a group. The frame itself stays as it is. Returns false if it may have no more outputs.
    #[cold]
    fn send_to_group(
        &self,
        received: Received<'_>,
        following: Following<'_>,
        group: &Group,
        chosen: &mut Chosen,
        work: &mut Work,
        scratch: &mut Scratch,
    ) -> bool {
        let frame = following.frame;
        let Received { bridge, ref arrival, ref judged, in_port } = received;
        // The frames before this one leave before it.
        self.send(received, chosen, work, scratch);
        let edited = chosen.edited;
        let was_edited = chosen.is_edited(frame);
        let before = was_edited.then(|| work.headers[frame].clone());
        let hash = work.key(judged, frame, was_edited, in_port).digest();
        let len = u64::from(arrival.frames.as_slice()[frame].len());
        self.lane.add(group.tally.index(), 1, len);
        let is_live = |number: u32| {
            let port = self.port(number);
            port != NOWHERE && bridge.output(arrival, port).is_live()
        };
        let mut used = false;
        for bucket in group.chosen(hash, is_live) {
            let count = bucket.to.map_or(1, |to| self.outputs_of(to));
            if !work.take_outputs(frame, count) {
                return false;
            }
            self.lane.add(bucket.tally.index(), 1, len);
            if let Some(to) = bucket.to {
                match chosen.change(received, frame, &bucket.changes, work) {
                    Ok(()) => self.choose(received, following, to, chosen, work),
                    Err(undone) => self.give_up(received, following, undone, chosen, work),
                }
            }
            used |= bucket.to.is_some();
            self.send(received, chosen, work, scratch);
            if let Some(before) = &before {
                work.headers[frame] = before.clone();
            }
            chosen.edited = edited;
        }
        if !used {
            arrival.drops.add(Reason::FlowDrop, 1);
        }
        true
    }

    /// Drops a frame that can't be changed as a flow wants. Controllers get it, if they want such frames.
    #[cold]
    fn give_up(
        &self,
        received: Received<'_>,
        following: Following<'_>,
        undone: Undone,
        chosen: &mut Chosen,
        work: &mut Work,
    ) {
        let reason = match undone {
            Undone::Expired => Reason::TimeToLive,
            Undone::TooDeep => Reason::TooDeep,
        };
        received.arrival.drops.add(reason, 1);
        if undone == Undone::Expired && self.wanted.get().has(PacketInReason::InvalidTtl) {
            let show = Show { reason: PacketInReason::InvalidTtl, whole: true };
            self.punt(received, following, show, chosen, work);
        }
    }

    /// Copies a frame, in its present state, to the ring for controllers.
    #[cold]
    fn punt(&self, received: Received<'_>, following: Following<'_>, show: Show, chosen: &mut Chosen, work: &mut Work) {
        let Received { arrival, judged, in_port, .. } = received;
        let (Following { frame, rule }, Show { reason, whole }) = (following, show);
        let packet = &mut work.packet;
        packet.clear();
        let taken = if chosen.is_edited(frame) {
            packet.extend_from_slice(work.headers[frame].bytes());
            work.headers[frame].taken() as u32
        } else {
            0
        };
        // The capacity suffices for the frame and the tags that it may have been given.
        for segment in part(judged.segments(frame), taken, u32::MAX) {
            let at = packet.len();
            packet.resize(at + segment.len() as usize, 0);
            segment.copy_to(&mut packet[at..]);
        }
        let Rule { cookie, table, .. } = *rule;
        let metadata = work.walks[frame].metadata;
        let punt = Punt { in_port, cookie, table, reason: reason as u8, metadata, total: packet.len() as u32 };
        if work.shares.push(&self.ring, &punt, if whole { packet } else { &[] }) {
            chosen.punted = true;
        } else {
            arrival.drops.add(Reason::ControllerBusy, 1);
        }
    }
}
