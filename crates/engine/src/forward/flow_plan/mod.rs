//! Forwarding by flows, in one worker: this looks frames up, and `run` sends them.

mod received;
mod run;
mod work;

use super::flows::{self, Emission, Flows, LiveWanted, Numbered, Path, Walk, Way};
use super::learning::{Arrival, LearningPlan, Scratch};
use super::output::Output;
use crate::clock::Cycles;
use crate::drops::{Drops, Reason};
use crate::live::Reader;
use crate::port::Sent;
use crate::stage::complete::Completer;
use crate::stage::egress::Outgoing;
use handover::{EventNotifier, Ring};
use openflow::{Cache, CacheKey, HEADER_BYTES, Key, Lane, RawKey, To};
use packet::{BurstStorage, HEAD, Head, Heads, Segment};
use received::{NOWHERE, Received};
use std::cell::{OnceCell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use work::Work;

/// Look-ups that each worker caches, of common packets and of others.
const REMEMBERED: usize = 16_384;

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
    wanted: Arc<LiveWanted>,
    clock: Cycles,
    lookups: RefCell<Lookups>,
    /// Made when the first frame comes that leaves work.
    completer: OnceCell<Completer>,
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
    caches: Caches,
    heads: Box<Heads>,
    work: Box<Work>,
}

/// Paths that were found before.
struct Caches {
    /// From the first table on, of common packets.
    common: Cache<RawKey, Path>,
    /// Of others, and from later tables on.
    others: Cache<Key, Path>,
}

impl FlowPlan {
    /// Returns the plan of a worker.
    pub(crate) fn new(numbered: &Numbered, worker: usize) -> FlowPlan {
        let Numbered { datapath, numbers, .. } = numbered.clone();
        let ring = datapath.ring(worker);
        let (lane, counted) = datapath.lane(worker);
        let largest = numbers.iter().max().map_or(0, |number| *number as usize);
        let mut ports = vec![0; largest + 1].into_boxed_slice();
        numbers.iter().enumerate().for_each(|(port, number)| ports[*number as usize] = port as u16 + 1);
        let work = Work::new(&ring, &numbers);
        FlowPlan {
            numbers,
            ports,
            ring,
            lane,
            counted,
            notifier: datapath.notifier.clone(),
            wanted: datapath.wanted.clone(),
            clock: Cycles::new(),
            lookups: RefCell::new(Lookups {
                flows: Reader::new(datapath.live.clone()),
                caches: Caches {
                    common: Cache::new(REMEMBERED, RandomState::new().hash_one(worker)),
                    others: Cache::new(REMEMBERED, RandomState::new().hash_one(worker)),
                },
                heads: Box::default(),
                work: Box::new(work),
            }),
            completer: OnceCell::new(),
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
        if !bridge.output(&arrival, arrival.from).receives() {
            return arrival.drops.add(Reason::NoReceive, arrival.frames.len() as u64);
        }
        if arrival.frames.offloads().is_none() {
            self.forward_complete(bridge, arrival, scratch);
        } else {
            self.forward_left(bridge, arrival, scratch);
        }
    }

    /// Forwards frames of which some leave work. Flows may change what that depends on, so that it is done first.
    #[cold]
    fn forward_left(&self, bridge: &LearningPlan, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let completer = self.completer.get_or_init(Completer::default);
        let done = completer.complete(arrival.frames, &|_, _| false, |frames| {
            self.forward_complete(bridge, Arrival { frames, ..arrival }, scratch);
            Sent { frames: frames.len() as u32, ..Sent::default() }
        });
        done.count_drops(arrival.frames.len(), arrival.drops);
    }

    #[inline(always)]
    fn forward_complete(&self, bridge: &LearningPlan, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        let Lookups { flows, caches, heads, work } = &mut *self.lookups.borrow_mut();
        flows.refresh();
        let judged = arrival.frames.judge_heads(heads);
        let received = Received { bridge, arrival, judged, in_port: self.numbers[arrival.from] };
        self.look_up(received, flows.value(), caches, work, scratch);
    }

    /// Sends packets of a controller.
    pub(crate) fn inject(&self, bridge: &LearningPlan, injection: Injection<'_>, scratch: &mut Scratch) {
        let Injection { emissions, outputs, drops, now } = injection;
        let Lookups { flows, caches, heads, work } = &mut *self.lookups.borrow_mut();
        flows.refresh();
        let flows: &Flows = flows.value();
        let mut injected = self.injected.borrow_mut();
        for &Emission { in_port, way, ref packet } in emissions {
            let mut burst = injected.start();
            burst.push(Segment::from(&packet[..]));
            let (frames, from) = (burst.frames(), self.port(in_port));
            let arrival = Arrival { frames, from, queue: 0, now, outputs, drops };
            let received = Received { bridge, arrival, judged: frames.judge_heads(heads), in_port };
            match way {
                Way::Table => self.look_up(received, flows, caches, work, scratch),
                Way::To(to) => {
                    work.walks[0] = Walk::sending(to);
                    self.run(received, flows, &mut caches.others, work, scratch);
                }
                Way::Nowhere(undone) => {
                    work.walks[0] = Walk::default();
                    self.drop_one(received, undone, flows, work);
                }
            }
        }
    }

    /// Finds the path of each frame, counts it, and goes along it.
    #[inline(always)]
    fn look_up(
        &self,
        received: Received<'_>,
        flows: &Flows,
        caches: &mut Caches,
        work: &mut Work,
        scratch: &mut Scratch,
    ) {
        let Received { bridge, arrival, judged, in_port } = received;
        let frames = arrival.frames;
        let mut run = Run::default();
        let mut same = true;
        for ((place, head), frame) in work.paths.iter_mut().zip(judged.heads()).zip(frames.as_slice()) {
            let raw = raw_key(head, in_port);
            // Frames of one connection often come in a row.
            if raw.is_none_or(|raw| !raw.is(&run.key)) {
                // Every frame has an Ethernet header, which is all that a key needs.
                let key = || Key::extract(head.bytes(), in_port, 0).unwrap_or_default();
                let path = match raw {
                    Some(raw) => self.find(flows, &mut caches.common, &raw, key, 0),
                    None => {
                        let key = key();
                        self.find(flows, &mut caches.others, &key, || key, 0)
                    }
                };
                same &= run.turn(raw.unwrap_or_default(), path, &self.lane);
            }
            run.add(frame.len());
            *place = run.path;
        }
        run.count(&self.lane);
        self.counted.packets.add(frames.len() as u64);
        if same {
            // The frames of a burst mostly go the same way: then all are sent at once, unchanged.
            match run.path.only {
                Some(To::Port(number)) if number != in_port && self.port(number) != NOWHERE => {
                    let output = bridge.output(&arrival, self.port(number));
                    let frames = Outgoing::Judged(judged.exchangeable(), work.room());
                    return output.transmit(arrival.queue, frames);
                }
                Some(To::Normal) if arrival.from != NOWHERE => {
                    return bridge.forward_on(&arrival, Outgoing::Judged(judged.exchangeable(), work.room()), scratch);
                }
                _ => {}
            }
        }
        work.walks.iter_mut().zip(&work.paths[..frames.len()]).for_each(|(walk, path)| *walk = Walk::begin(*path));
        self.run(received, flows, &mut caches.others, work, scratch);
    }

    /// Returns the path of a packet that comes to a table with this key, which is cached by `by`.
    #[inline(always)]
    fn find<K: CacheKey>(
        &self,
        flows: &Flows,
        cache: &mut Cache<K, Path>,
        by: &K,
        key: impl FnOnce() -> Key,
        table: u8,
    ) -> Path {
        cache.get(by, flows.serial).unwrap_or_else(|| {
            self.counted.searched.add(1);
            let path = flows.search(&key(), table);
            cache.insert(by, flows.serial, path);
            path
        })
    }
}

/// Returns the key of a frame by its bytes, if it has one.
#[inline(always)]
fn raw_key(head: &Head, in_port: u32) -> Option<RawKey> {
    const { assert!(HEAD == HEADER_BYTES) };
    let (block, len) = head.block();
    RawKey::of(block, len, in_port)
}

/// Consecutive frames of one path, which are counted together, and the raw key of the last one.
#[derive(Default)]
struct Run {
    key: RawKey,
    path: Path,
    packets: u64,
    bytes: u64,
}

impl Run {
    /// Turns to frames with another key and its path. Returns false if that is another path.
    #[inline(always)]
    fn turn(&mut self, key: RawKey, path: Path, lane: &Lane) -> bool {
        let same = self.packets == 0 || self.path == path;
        if !same {
            self.count(lane);
            (self.packets, self.bytes) = (0, 0);
        }
        (self.key, self.path) = (key, path);
        same
    }

    /// Adds a frame.
    #[inline(always)]
    fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    #[inline(always)]
    fn count(&self, lane: &Lane) {
        self.path.slots().iter().for_each(|slot| lane.add(*slot, self.packets, self.bytes));
    }
}
