//! Forwarding by flows, in one worker.

use super::flows::{self, Emission, Ended, Flows, Next, Numbered, Path, Walk};
use super::head::Head;
use super::learning::{Arrival, LearningPlan, Scratch};
use super::output::Output;
use super::vlan::part;
use crate::drops::{Drops, Reason};
use crate::live::Reader;
use crate::punt::{EventNotifier, Punt, Ring, Shares};
use openflow::rewrite::Headers;
use openflow::{Cache, Key, Lane, Rule, To};
use packet::{BurstStorage, Frames, MAX_BURST, Segment};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Look-ups that each worker caches.
const REMEMBERED: usize = 16_384;

/// Index for no port of the bridge.
const NOWHERE: usize = usize::MAX;

/// A bridge's flows, as one worker uses them.
pub(crate) struct FlowPlan {
    /// Number of each port of the bridge.
    numbers: Arc<[u32]>,
    /// By number: the index of the port in the bridge plus one, or zero.
    ports: Box<[u16]>,
    ring: Arc<Ring>,
    /// The counters that this worker writes: of flows, and of lookups.
    lane: Arc<Lane>,
    counted: Arc<flows::Lookups>,
    notifier: Arc<EventNotifier>,
    lookups: RefCell<Lookups>,
    /// Storage for a packet of a controller.
    injected: RefCell<Box<BurstStorage>>,
}

/// Packets of a controller, and the worker's round in which they are sent.
#[derive(Clone, Copy)]
pub(crate) struct Injection<'a> {
    pub(crate) emissions: &'a [Emission],
    pub(crate) outputs: &'a [Output],
    /// Drops of such packets.
    pub(crate) drops: &'a Drops,
    /// Seconds since the switch started.
    pub(crate) now: u32,
}

/// State that look-ups keep from burst to burst.
struct Lookups {
    flows: Reader<Flows>,
    cache: Cache<Path>,
    work: Box<Work>,
}

/// A frame of a burst that is copied for controllers.
struct Copied {
    frame: usize,
    /// Whether its headers have changed.
    edited: bool,
    /// Whether its bytes are copied, too.
    whole: bool,
}

/// Scratch space for a burst.
struct Work {
    heads: [Head; MAX_BURST],
    paths: [Path; MAX_BURST],
    walks: [Walk; MAX_BURST],
    /// Headers of frames that are changed.
    headers: [Headers; MAX_BURST],
    /// By port of the bridge: frames that go there, a bit each.
    masks: Box<[u32]>,
    storage: BurstStorage,
    /// A packet for controllers.
    packet: Vec<u8>,
    /// Shares of the ports in the ring for controllers.
    shares: Shares,
}

impl FlowPlan {
    /// Returns the plan of a worker.
    pub(crate) fn new(numbered: &Numbered, worker: usize) -> FlowPlan {
        let Numbered { datapath, numbers } = numbered.clone();
        let ring = datapath.ring(worker);
        let (lane, counted) = datapath.lane(worker);
        let largest = numbers.iter().max().map_or(0, |number| *number as usize);
        let mut ports = vec![0; largest + 1].into_boxed_slice();
        numbers.iter().enumerate().for_each(|(port, number)| ports[*number as usize] = port as u16 + 1);
        let work = Work {
            heads: std::array::from_fn(|_| Head::default()),
            paths: Default::default(),
            walks: Default::default(),
            headers: std::array::from_fn(|_| Headers::new(&[], 0)),
            masks: vec![0; numbers.len()].into(),
            storage: BurstStorage::default(),
            packet: Vec::with_capacity(packet::MAX_FRAME as usize + 64),
            shares: Shares::new(&ring, &numbers),
        };
        FlowPlan {
            numbers,
            ports,
            ring,
            lane,
            counted,
            notifier: datapath.notifier.clone(),
            lookups: RefCell::new(Lookups {
                flows: Reader::new(datapath.live.clone()),
                cache: Cache::new(REMEMBERED, RandomState::new().hash_one(worker)),
                work: Box::new(work),
            }),
            injected: RefCell::default(),
        }
    }

    /// Returns the port of the bridge that has this number, or [`NOWHERE`].
    #[inline(always)]
    fn port(&self, number: u32) -> usize {
        self.ports.get(number as usize).map_or(NOWHERE, |&port| usize::from(port).wrapping_sub(1))
    }

    /// Forwards a burst that a port received.
    #[inline(never)]
    pub(crate) fn forward(&self, bridge: &LearningPlan, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let lookups = &mut *self.lookups.borrow_mut();
        lookups.flows.refresh();
        self.look_up(bridge, arrival, self.numbers[arrival.from], lookups, scratch);
    }

    /// Sends packets of a controller.
    pub(crate) fn inject(&self, bridge: &LearningPlan, injection: Injection<'_>, scratch: &mut Scratch) {
        let Injection { emissions, outputs, drops, now } = injection;
        let lookups = &mut *self.lookups.borrow_mut();
        lookups.flows.refresh();
        let mut injected = self.injected.borrow_mut();
        for Emission { in_port, to, packet } in emissions {
            let mut burst = injected.start();
            burst.push(Segment::from(&packet[..]));
            let (frames, from) = (burst.frames(), self.port(*in_port));
            let arrival = Arrival { frames, from, queue: 0, now, outputs, drops };
            match to {
                None => self.look_up(bridge, arrival, *in_port, lookups, scratch),
                Some(to) => {
                    lookups.work.walks[0] = Walk::sending(*to);
                    self.run(bridge, arrival, *in_port, lookups, scratch);
                }
            }
        }
    }

    /// Finds the path of each frame, counts it, and goes along it.
    #[inline(always)]
    fn look_up(
        &self,
        bridge: &LearningPlan,
        arrival: Arrival<'_, '_>,
        in_port: u32,
        lookups: &mut Lookups,
        scratch: &mut Scratch,
    ) {
        let Lookups { flows, cache, work } = lookups;
        let flows: &Flows = flows.value();
        let frames = arrival.frames;
        let mut run = Run::default();
        let mut same = true;
        let mut before: Option<(Key, Path)> = None;
        for ((place, head), frame) in work.paths.iter_mut().zip(&mut work.heads).zip(frames.as_slice()) {
            head.take(&frames, frame);
            // Every frame has an Ethernet header, which is all that a key needs.
            let key = Key::extract(head.bytes(), in_port, 0).unwrap_or_default();
            // Frames of one connection often come in a row.
            let path = match before {
                Some((other, path)) if other.is(&key) => path,
                _ => {
                    let path = self.find(flows, cache, &key, 0);
                    before = Some((key, path));
                    path
                }
            };
            *place = path;
            same &= run.add(path, frame.len(), &self.lane);
        }
        run.count(&self.lane);
        self.counted.packets.add(frames.len() as u64);
        if same {
            // The frames of a burst mostly go the same way: then all are sent at once, unchanged.
            match run.path.only {
                Some(To::Port(number)) if number != in_port && self.port(number) != NOWHERE => {
                    return bridge.output(&arrival, self.port(number)).transmit(arrival.queue, frames);
                }
                Some(To::Normal) if arrival.from != NOWHERE => return bridge.forward(arrival, scratch),
                _ => {}
            }
        }
        work.walks.iter_mut().zip(&work.paths[..frames.len()]).for_each(|(walk, path)| *walk = Walk::begin(*path));
        self.run(bridge, arrival, in_port, lookups, scratch);
    }

    /// Returns the path of a packet that comes to a table with this key.
    #[inline(always)]
    fn find(&self, flows: &Flows, cache: &mut Cache<Path>, key: &Key, table: u8) -> Path {
        cache.get(key, flows.serial).unwrap_or_else(|| {
            self.counted.searched.add(1);
            let path = flows.search(key, table);
            cache.insert(key, flows.serial, path);
            path
        })
    }

    /// Goes along the paths of frames from output to output, as a frame may change between two outputs.
    #[inline(never)]
    fn run(
        &self,
        bridge: &LearningPlan,
        arrival: Arrival<'_, '_>,
        in_port: u32,
        lookups: &mut Lookups,
        scratch: &mut Scratch,
    ) {
        let Lookups { flows, cache, work } = lookups;
        let flows: &Flows = flows.value();
        let mut on_the_way = u32::MAX >> (MAX_BURST - arrival.frames.len());
        let (mut edited, mut punted) = (0u32, false);
        while on_the_way != 0 {
            let mut normal = 0u32;
            for frame in bits(on_the_way) {
                let bit = 1 << frame;
                let sent = loop {
                    match work.walks[frame].next(flows) {
                        Next::Send(to, rule) => break Some((to, rule)),
                        Next::Change(actions) => {
                            if edited & bit == 0 {
                                edited |= bit;
                                work.headers[frame] = Headers::new(work.heads[frame].bytes(), 0);
                            }
                            if !actions.iter().all(|action| work.headers[frame].apply(action)) {
                                arrival.drops.add(Reason::TimeToLive, 1);
                                work.walks[frame].end();
                                on_the_way &= !bit;
                                break None;
                            }
                        }
                        Next::LookUp(table) => {
                            let key = work.key(frame, edited & bit != 0, in_port).at(table, work.walks[frame].metadata);
                            let path = self.find(flows, cache, &key, table);
                            let len = u64::from(arrival.frames.as_slice()[frame].len());
                            path.slots().iter().for_each(|slot| self.lane.add(*slot, 1, len));
                            work.walks[frame].go_on(path);
                        }
                        Next::End => {
                            count_ended(&work.walks[frame], flows, &arrival);
                            on_the_way &= !bit;
                            break None;
                        }
                    }
                };
                let Some((to, rule)) = sent else { continue };
                match to {
                    To::Port(number) if number == in_port => arrival.drops.add(Reason::Hairpin, 1),
                    To::Port(number) => work.send_to(self.port(number), bit, &arrival),
                    To::InPort => work.send_to(arrival.from, bit, &arrival),
                    To::Flood => {
                        let others = work.masks.iter_mut().enumerate().filter(|(port, _)| *port != arrival.from);
                        if others.map(|(_, mask)| *mask |= bit).count() == 0 {
                            arrival.drops.add(Reason::NoPort, 1);
                        }
                    }
                    To::Normal => normal |= bit,
                    To::Controller { whole } => {
                        let copied = Copied { frame, edited: edited & bit != 0, whole };
                        punted |= self.punt(rule, &arrival, in_port, copied, work);
                    }
                }
            }
            for port in 0..work.masks.len() {
                let mask = std::mem::take(&mut work.masks[port]);
                if mask != 0 {
                    let send = |frames: Frames<'_>| bridge.output(&arrival, port).transmit(arrival.queue, frames);
                    work.select(&arrival, mask, edited, send);
                }
            }
            if normal != 0 {
                work.select(&arrival, normal, edited, |frames| {
                    let arrival = Arrival { frames, ..arrival };
                    if arrival.from == NOWHERE {
                        bridge.forward_from_nowhere(arrival, scratch);
                    } else {
                        bridge.forward(arrival, scratch);
                    }
                });
            }
        }
        if punted {
            self.notifier.notify();
        }
    }

    /// Copies a frame, in its present state, to the ring for controllers. Reports whether there was room.
    #[cold]
    fn punt(&self, rule: &Rule, arrival: &Arrival<'_, '_>, in_port: u32, copied: Copied, work: &mut Work) -> bool {
        let Copied { frame: index, edited, whole } = copied;
        let (frames, packet) = (arrival.frames, &mut work.packet);
        let frame = &frames.as_slice()[index];
        packet.clear();
        let taken = if edited {
            packet.extend_from_slice(work.headers[index].bytes());
            work.headers[index].taken() as u32
        } else {
            0
        };
        // The capacity suffices for the frame and the tags that it may have been given.
        for segment in part(&frames, frame, taken, u32::MAX) {
            let at = packet.len();
            packet.resize(at + segment.len() as usize, 0);
            segment.copy_to(&mut packet[at..]);
        }
        let punt = Punt { in_port, cookie: rule.cookie, is_miss: rule.is_miss, total: packet.len() as u32 };
        let taken = self.ring.push_fairly(&punt, if whole { packet } else { &[] }, &mut work.shares);
        if !taken {
            arrival.drops.add(Reason::ControllerBusy, 1);
        }
        taken
    }
}

impl Work {
    /// Returns the key of a frame as it is now.
    fn key(&self, frame: usize, edited: bool, in_port: u32) -> Key {
        let headers = &self.headers[frame];
        let (bytes, tunnel) =
            if edited { (headers.bytes(), headers.tunnel_id) } else { (self.heads[frame].bytes(), 0) };
        Key::extract(bytes, in_port, tunnel).unwrap_or_default()
    }

    #[inline(always)]
    fn send_to(&mut self, port: usize, bit: u32, arrival: &Arrival<'_, '_>) {
        match self.masks.get_mut(port) {
            Some(mask) => *mask |= bit,
            None => arrival.drops.add(Reason::UnknownPort, 1),
        }
    }

    /// Passes the frames of `mask` to `send`, those of `edited` with their new headers before the bytes that were not copied.
    #[inline(always)]
    fn select(&mut self, arrival: &Arrival<'_, '_>, mask: u32, edited: u32, send: impl FnOnce(Frames<'_>)) {
        let frames = arrival.frames;
        let all = frames.as_slice();
        if mask & edited == 0 {
            // Unchanged, so that a frame can still be delivered in place, or sent without a copy.
            let mut chosen = [all[0]; MAX_BURST];
            let mut count = 0;
            for frame in bits(mask) {
                chosen[count] = all[frame];
                count += 1;
            }
            return send(frames.select(&chosen[..count]));
        }
        let mut burst = self.storage.start();
        for index in bits(mask) {
            let frame = &all[index];
            let added = if edited & 1 << index == 0 {
                burst.push_frame(&frames, frame)
            } else {
                let headers = &self.headers[index];
                let rest = part(&frames, frame, headers.taken() as u32, u32::MAX);
                burst.push_segments_from([Segment::from(headers.bytes())].into_iter().chain(rest), frame.cut_origin())
            };
            if !added {
                // Longer than frames can be, or more segments than a burst holds.
                arrival.drops.add(Reason::TooLong, 1);
            }
        }
        if !burst.is_empty() {
            send(burst.frames());
            frames.keep_places(burst.kept());
        }
    }
}

/// Consecutive frames of one path, which are counted together.
#[derive(Default)]
struct Run {
    path: Path,
    packets: u64,
    bytes: u64,
}

impl Run {
    /// Adds a frame. Returns false if it is of another path than the previous one.
    #[inline(always)]
    fn add(&mut self, path: Path, len: u32, lane: &Lane) -> bool {
        let same = self.packets == 0 || self.path == path;
        if !same {
            self.count(lane);
            (self.packets, self.bytes) = (0, 0);
        }
        self.path = path;
        self.packets += 1;
        self.bytes += u64::from(len);
        same
    }

    #[inline(always)]
    fn count(&self, lane: &Lane) {
        self.path.slots().iter().for_each(|slot| lane.add(*slot, self.packets, self.bytes));
    }
}

/// Counts a frame that was sent nowhere.
fn count_ended(walk: &Walk, flows: &Flows, arrival: &Arrival<'_, '_>) {
    if !walk.is_sent {
        let reason = match walk.ended(flows) {
            Ended::Missed => Reason::NoFlow,
            Ended::Dropped => Reason::FlowDrop,
        };
        arrival.drops.add(reason, 1);
    }
}

/// Returns the positions of the bits of `mask`.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}
