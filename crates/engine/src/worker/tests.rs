//! Tests of a worker between a NIC that brings aggregates and a guest whose buffers the NIC may fill.

use super::{Change, Input, LaneInput, OutputQueue, ParentInput, Plan, Route};
use crate::answers::Answers;
use crate::clock::{self, Cycles};
use crate::drops::Drops;
use crate::forward::{Half, HalfStep, Output, Target, TransmitQueue};
use crate::live::Live;
use crate::monitor::WorkerCounters;
use crate::port::sink::Sink;
use crate::port::vhost_user::{Call, VhostTransmit};
use crate::port::virtio_user::{QueueResources, STRIDE, VirtioReceive};
use crate::port::zero_copy::Mapped;
use crate::queue_id::QueueId;
use crate::sharing::{Terms, assign};
use crate::spec::{AggregationSpec, Chains};
use crate::stage::aggregate::{Member, PortTraffic, Relay, Split, rules};
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use handover::{Alarm, EventNotifier};
use openflow::aggregation::RELAY_ETHERTYPE;
use packet::{BurstStorage, MAX_BURST, MacAddr, Segment};
use paflow::Receiver;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::Enqueue;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, features};

/// Descriptors of the NIC's ring, which has a buffer of the switch for each.
const NIC: u16 = 256;

/// Bytes of a buffer of the guest.
const ROOM: u32 = 2048;

const LONG: usize = 1500;

/// EtherType of the packets.
const PLAIN: u16 = 0x9000;

/// This switch's address.
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);

/// Returns packet `number`, which its bytes identify.
fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (number as usize * 31 + at * 7) as u8).collect();
    bytes[12..14].copy_from_slice(&PLAIN.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Returns an aggregate directly in an Ethernet frame, as docs/aggregation-format.md says.
fn aggregate(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend([0x88, 0xb5, 1, 1]);
    bytes.extend((packets.len() as u16).to_be_bytes());
    for packet in packets {
        bytes.extend((packet.len() as u16).to_be_bytes());
        bytes.extend(packet);
        bytes.extend(vec![0; packet.len() % 2]);
    }
    bytes
}

/// A frame from the network: the lengths of its packets, which are joined unless there is one.
type Shape = &'static [usize];

const ALONE: Shape = &[LONG];
const SHORT: Shape = &[64; 20];
const MIDDLE: Shape = &[64, 570, 64, 570, 64];

/// How a guest posts its buffers.
#[derive(Clone, Copy, Debug)]
struct Posting {
    packed: bool,
    /// Descriptors of its ring.
    size: u16,
    /// Buffers that it has.
    buffers: u16,
}

const USUAL: Posting = Posting { packed: false, size: 256, buffers: 256 };

/// A ring with room for the packets of several bursts of aggregates.
const DEEP: Posting = Posting { size: 1024, buffers: 1024, ..USUAL };

struct Rig {
    plan: Plan,
    now: u64,
    nic: Enqueue,
    posted: Queue,
    /// Guest address of the buffer of each chain, by id.
    at: Vec<u64>,
    arena: Arc<Arena>,
    mapped: Arc<Mapped>,
    drops: Arc<Drops>,
    storage: Box<BurstStorage>,
    /// Frames that the NIC has no buffers for yet.
    backlog: VecDeque<Vec<u8>>,
    /// Number of the next packet that is sent.
    number: u32,
    received: Vec<u32>,
    member: Member,
}

impl Rig {
    /// Returns a worker whose NIC fills buffers of the guest if it is `mapped`.
    fn new(is_mapped: bool, posting: Posting) -> Rig {
        Rig::of_lanes(is_mapped, posting, 0)
    }

    /// Returns a worker that is the parent of the NIC's queue, and has this number of lanes of it. Without any, it polls the queue alone.
    fn of_lanes(is_mapped: bool, Posting { packed, size, buffers }: Posting, lanes: usize) -> Rig {
        clock::start();
        let mut arena = Arena::new(8 << 20, false).unwrap();
        let common = features::VERSION_1 | if packed { features::RING_PACKED } else { 0 };
        let wire = Queue::layout(&mut arena, NIC, Negotiated(common)).unwrap();
        let ring = Queue::layout(&mut arena, size, Negotiated(common | features::MRG_RXBUF)).unwrap();
        let own = arena.allocate(u64::from(NIC) * u64::from(STRIDE), 4096).unwrap();
        let guests = arena.allocate(u64::from(buffers) * u64::from(ROOM), 4096).unwrap();
        let arena = Arc::new(arena);
        let memory = arena.memory().clone();
        let nic = Enqueue::new(Arc::new(memory.also_by_host()), &wire).unwrap();
        let to_guest = Enqueue::new(memory, &ring).unwrap();
        let posted = Queue::new(&arena, &ring).unwrap();
        let queue = QueueEnd::create(Queue::new(&arena, &wire).unwrap(), wire).unwrap();
        let end =
            QueueResources { queue, buffers: own, arena: arena.clone(), broken: Arc::default(), drops: Arc::default() };
        let mapped = Arc::new(Mapped::new(true, Some(0)));
        mapped.set_reachable(Some(arena.memory().clone()));
        mapped.set_splits(true);
        let half = VirtioReceive::new(end, false, is_mapped.then(|| mapped.clone()), 0);
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());

        let member = member();
        let split = || Box::new(Split::new(member.clone(), 0, Arc::default())) as Box<_>;
        let cycles = Cycles::new();
        let counters = Arc::<WorkerCounters>::default();
        let mut plan = Plan::new(counters.clone(), cycles.clone(), None, None);
        let output = Half::Own(Egress::new(Box::new(to_guest)));
        let output = Output::new(1, vec![TransmitQueue { half: output, counters: Arc::default() }], counters.clone());
        let drops = output.drops.clone();
        plan.change(Change { outputs: vec![(0, output)], ..Change::default() });
        let rx_buffers_from = is_mapped.then_some(OutputQueue { output: 0, queue: 0 });
        let queue = QueueId::new(0, 0);
        let route = |from, output| Route::new(from, Target::Patch(output), 0, Arc::default(), Arc::default());
        if lanes == 0 {
            let ingress = Ingress { half: Box::new(half), stages: [split()].into_iter().collect() };
            let input = Input { route: route(queue, 0), ingress, rx_buffers_from, tx_in_place_via: None };
            plan.change(Change { inputs: vec![input], ..Change::default() });
        } else {
            let wake = || Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
            let alarms = (0..lanes).map(|_| Arc::new(Alarm::new(wake()))).collect();
            let terms = Terms { outputs: 1, stalled_after: u64::MAX, drops: Arc::default(), alarms };
            let Ok((parent, parts)) = assign(Box::new(half), terms) else { panic!("frames can be held") };
            let (outputs, number) = (vec![0], 0);
            let parent = ParentInput { queue, parent, outputs, number, rx_buffers_from, tx_in_place_via: None };
            plan.change(Change { parents: vec![parent], ..Change::default() });
            for (slot, lane) in (1..).zip(parts) {
                let half = TransmitQueue { half: Half::HandedOver, counters: Arc::default() };
                let output = Output::new(1, vec![half], counters.clone());
                let (stages, outputs) = ([split()].into_iter().collect(), vec![slot]);
                let lane = LaneInput { route: route(queue.lane(slot - 1), slot), lane, stages, outputs };
                plan.change(Change { outputs: vec![(slot, output)], lanes: vec![lane], ..Change::default() });
            }
        }
        let mut rig = Rig {
            plan,
            now: cycles.now(),
            nic,
            posted,
            at: vec![0; size.into()],
            arena,
            mapped,
            drops,
            storage: Box::default(),
            backlog: VecDeque::new(),
            number: 0,
            received: Vec::new(),
            member,
        };
        (0..buffers).for_each(|i| rig.post(guests + u64::from(i) * u64::from(ROOM)));
        rig.posted.publish();
        rig.plan.round(rig.now);
        rig
    }

    fn post(&mut self, addr: u64) {
        let id =
            self.posted.add(&[Buffer { addr, len: ROOM, writable: true }]).expect("as many descriptors as buffers");
        self.at[usize::from(id)] = addr;
    }

    /// Has the network send frames of these shapes.
    fn send(&mut self, shapes: impl IntoIterator<Item = Shape>) {
        for shape in shapes {
            let packets: Vec<_> = (self.number..).zip(shape).map(|(number, &len)| packet(number, len)).collect();
            self.number += packets.len() as u32;
            self.backlog.push_back(if let [alone] = &packets[..] { alone.clone() } else { aggregate(&packets) });
        }
    }

    /// Has the NIC fill as many buffers as it can, up to a burst, and the worker make a round. Then the guest takes what it
    /// got, and posts the buffers again.
    fn round(&mut self) {
        let mut burst = self.storage.start();
        self.backlog.iter().take(MAX_BURST).for_each(|bytes| burst.push(Segment::from(&bytes[..])));
        let done = self.nic.transmit(burst.frames()).unwrap().frames as usize;
        self.backlog.drain(..done);
        self.plan.round(self.now);
        while let Some(used) = self.posted.pop_used().unwrap() {
            let addr = self.at[usize::from(used.id)];
            let len = used.len.checked_sub(NET_HEADER).expect("no buffer comes back empty");
            let mut bytes = vec![0; len as usize];
            self.arena.segment(addr + u64::from(NET_HEADER), len).unwrap().copy_to(&mut bytes);
            let number = u32::from_be_bytes(bytes[14..18].try_into().unwrap());
            assert!(bytes == packet(number, bytes.len()), "packet {number} is damaged");
            assert!(self.received.last().is_none_or(|&last| last < number), "packet {number} is late, or came twice");
            self.received.push(number);
            self.post(addr);
        }
        self.posted.publish();
    }

    /// Makes rounds until everything was received or dropped.
    fn drain(&mut self) {
        let over = |rig: &Rig| rig.received.len() as u64 + rig.dropped() == u64::from(rig.number);
        // Rounds are few: at most one for each burst of packets, and as many in which the queue sits out.
        let rounds = 2 * self.number as usize + 100;
        for _ in 0..rounds {
            if self.backlog.is_empty() && over(self) {
                return;
            }
            self.round();
        }
        let (backlog, received) = (self.backlog.len(), self.received.len());
        panic!("stuck: {received} of {} arrived, {backlog} frames wait, {:?}", self.number, self.mapped);
    }

    /// Sends these shapes again and again, a burst at a time.
    fn run(&mut self, shapes: &[Shape], bursts: usize) {
        let mut next = shapes.iter().copied().cycle();
        for _ in 0..bursts {
            self.send(next.by_ref().take(MAX_BURST).collect::<Vec<_>>());
            self.drain();
        }
    }

    fn dropped(&self) -> u64 {
        self.drops.named().values().sum()
    }

    fn counts(&self) -> Counts {
        let Mapped { in_place, unclaimed, split, copied, .. } = &*self.mapped;
        let [in_place, unclaimed, split, copied] = [in_place, unclaimed, split, copied].map(|counter| counter.get());
        Counts { in_place, unclaimed, split, copied, dropped: self.dropped() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    in_place: u64,
    unclaimed: u64,
    split: u64,
    copied: u64,
    dropped: u64,
}

/// Returns the state of a port that aggregates, and takes flows that other switches relay.
fn member() -> Member {
    let spec = AggregationSpec {
        mtu: 1500,
        chains: Chains::Vlan,
        receiver: Receiver::default(),
        mac: OWN,
        addresses: Vec::new(),
        drop_unknown: false,
        relay: Some(OWN),
        next_hops: Vec::new(),
        flows: Vec::new(),
    };
    let notifier = Arc::new(EventNotifier::new().unwrap());
    let member = Member {
        port: "wan".into(),
        rules: Arc::new(Live::new(rules(Some(&spec), &[]))),
        traffic: Arc::new(PortTraffic::new(1)),
        relay: Arc::new(Relay::new(1, notifier.clone())),
        neighbours: Arc::new(Answers::new(1, crate::neighbour::RING, notifier.clone())),
        refusals: Arc::new(Answers::new(1, crate::stage::aggregate::REFUSALS, notifier)),
    };
    member.relay.prepare(0);
    member.neighbours.prepare(0);
    member
}

/// Mixes of frames.
const IMIX: &[Shape] = &[MIDDLE, MIDDLE, ALONE];
const MOSTLY_LONG: &[Shape] = &[SHORT, ALONE, ALONE];
const ONLY_SHORT: &[Shape] = &[SHORT];
const ONLY_LONG: &[Shape] = &[ALONE];

/// Bursts until what was learned from the first ones has settled.
const LEARN: usize = 20;

/// Returns what the mapped rig counted in `bursts` bursts of a mix, after it knew the mix.
fn settled(posting: Posting, mix: &[Shape], bursts: usize) -> Counts {
    settled_in(Rig::new(true, posting), mix, bursts)
}

/// The same for a rig.
fn settled_in(mut rig: Rig, mix: &[Shape], bursts: usize) -> Counts {
    rig.run(mix, LEARN);
    let before = rig.counts();
    rig.run(mix, bursts);
    let after = rig.counts();
    let since = |count: fn(&Counts) -> u64| count(&after) - count(&before);
    Counts {
        in_place: since(|c| c.in_place),
        unclaimed: since(|c| c.unclaimed),
        split: since(|c| c.split),
        copied: since(|c| c.copied),
        dropped: since(|c| c.dropped),
    }
}

const FRAMES: u64 = 50 * MAX_BURST as u64;

#[test]
fn frames_that_stay_whole_stay_in_place() {
    for packed in [false, true] {
        let posting = Posting { packed, ..USUAL };
        let all = Counts { in_place: FRAMES, unclaimed: 0, split: 0, copied: 0, dropped: 0 };
        assert_eq!(settled(posting, ONLY_LONG, 50), all);
    }
}

#[test]
fn nothing_is_lent_while_most_frames_are_aggregates() {
    for packed in [false, true] {
        for mix in [ONLY_SHORT, IMIX] {
            let posting = Posting { packed, ..USUAL };
            let all = Counts { in_place: 0, unclaimed: 0, split: 0, copied: FRAMES, dropped: 0 };
            assert_eq!(settled(posting, mix, 50), all);
        }
    }
}

#[test]
fn aggregates_are_split_out_between_frames_that_stay_in_place() {
    for packed in [false, true] {
        let counts = settled(Posting { packed, ..DEEP }, MOSTLY_LONG, 50);
        assert_eq!((counts.unclaimed, counts.dropped), (counts.split, 0), "{counts:?}");
        // Nearly all come in buffers of the guest: those of the switch are used where these are not enough.
        assert_eq!(counts.in_place + counts.copied, FRAMES);
        assert!(counts.in_place > FRAMES * 3 / 4 && counts.split > FRAMES / 4, "{counts:?}");
    }
}

/// However few buffers a guest has, nothing gets stuck, and no more is lost than by a port without a mapping.
#[test]
fn no_more_is_lost_than_without_a_mapping() {
    for packed in [false, true] {
        for (size, buffers) in
            [(256, 256), (1024, 1024), (256, 128), (256, 40), (256, 17), (256, 3), (64, 64), (16, 16)]
        {
            let posting = Posting { packed, size, buffers };
            for mix in [IMIX, MOSTLY_LONG, ONLY_SHORT, ONLY_LONG] {
                let [mapped, copied] = [true, false].map(|is_mapped| {
                    let mut rig = Rig::new(is_mapped, posting);
                    rig.run(mix, 3 * LEARN);
                    rig.dropped()
                });
                assert!(mapped <= copied, "{posting:?} {mix:?}: lost {mapped}, {copied} without a mapping");
            }
        }
    }
}

/// All buffers but a few are on loan when aggregates arrive, or none is when they no longer do.
#[test]
fn the_share_that_is_lent_follows_the_mix() {
    let mut rig = Rig::new(true, USUAL);
    assert_eq!(rig.mapped.on_loan.get(), 0, "nothing is known");
    rig.run(ONLY_LONG, LEARN);
    let most = rig.mapped.on_loan.get();
    // All but those that stay, and those that the guest has just got.
    assert!(most >= 90, "{most}");
    let lost = rig.dropped();
    rig.run(ONLY_SHORT, 10 * LEARN);
    assert_eq!(rig.mapped.on_loan.get(), 0);
    // One burst of aggregates met a ring without buffers.
    assert!(rig.dropped() - lost <= 20 * MAX_BURST as u64);
    let lost = rig.dropped();
    rig.run(MOSTLY_LONG, 10 * LEARN);
    assert!(rig.mapped.on_loan.get() < most, "{:?}", rig.mapped);
    rig.run(ONLY_LONG, 10 * LEARN);
    assert_eq!((rig.mapped.on_loan.get(), rig.dropped()), (most, lost));
}

/// Frames of a shared queue wait for the parent in the guest's buffers.
#[test]
fn frames_that_several_workers_process_stay_in_place() {
    for packed in [false, true] {
        for lanes in [1, 3] {
            let posting = Posting { packed, ..DEEP };
            let counts = settled_in(Rig::of_lanes(true, posting, lanes), ONLY_LONG, 50);
            let all = Counts { in_place: FRAMES, unclaimed: 0, split: 0, copied: 0, dropped: 0 };
            assert_eq!(counts, all);
            let counts = settled_in(Rig::of_lanes(true, posting, lanes), MOSTLY_LONG, 50);
            assert_eq!((counts.unclaimed, counts.dropped), (counts.split, 0), "{counts:?}");
            assert_eq!(counts.in_place + counts.copied, FRAMES);
            let counts = settled_in(Rig::of_lanes(true, posting, lanes), ONLY_SHORT, 50);
            assert_eq!((counts.copied, counts.dropped), (FRAMES, 0), "{counts:?}");
        }
    }
}

/// Packets of aggregates that several workers split fit the guest's ring as well as those that one worker splits.
#[test]
fn aggregates_that_several_workers_split_are_not_lost() {
    for lanes in [0, 1, 3] {
        let mut rig = Rig::of_lanes(false, USUAL, lanes);
        rig.run(ONLY_SHORT, LEARN);
        let lost = rig.dropped();
        rig.run(ONLY_SHORT, 50);
        assert_eq!(rig.dropped() - lost, 0, "{lanes} lanes");
    }
}

/// A shared queue loses no more if it is mapped, however few buffers the guest has, once it knows the mix.
#[test]
fn no_more_is_lost_when_several_workers_share_a_mapped_queue() {
    for (size, buffers) in [(256, 256), (256, 40), (256, 3), (16, 16)] {
        for mix in [IMIX, MOSTLY_LONG, ONLY_LONG] {
            let posting = Posting { packed: false, size, buffers };
            let [mapped, copied] =
                [true, false].map(|is_mapped| settled_in(Rig::of_lanes(is_mapped, posting, 2), mix, 5 * LEARN).dropped);
            assert!(mapped <= copied, "{posting:?} {mix:?}: lost {mapped}, {copied} without a mapping");
        }
    }
}

/// A guest could write such a frame to a buffer that the NIC has just filled.
#[test]
fn no_flow_is_taken_from_a_buffer_of_the_guest() {
    let relayed = |rig: &mut Rig| {
        let mut bytes = packet(rig.number, 100);
        bytes[..6].copy_from_slice(&OWN.0);
        bytes[12..14].copy_from_slice(&RELAY_ETHERTYPE.to_be_bytes());
        rig.backlog.push_back(bytes);
    };
    let mut rig = Rig::new(true, USUAL);
    relayed(&mut rig);
    rig.round();
    assert_eq!(rig.member.relay.taken(), 1, "it came in a buffer of the switch");
    rig.run(ONLY_LONG, LEARN);
    let before = rig.mapped.in_place.get();
    relayed(&mut rig);
    let mut burst = rig.storage.start();
    burst.push(Segment::from(&rig.backlog[0][..]));
    assert_eq!(rig.nic.transmit(burst.frames()).unwrap().frames, 1);
    rig.plan.round(rig.now);
    assert_eq!((rig.member.relay.taken(), rig.mapped.in_place.get() - before), (1, 1), "it went on like any frame");
}

/// A bridge may have hundreds of ports without guests.
#[test]
fn a_round_does_nothing_for_outputs_that_are_down() {
    let mut rig = Rig::new(false, USUAL);
    let down = || TransmitQueue { half: Half::Down, counters: Arc::default() };
    let output = |slot: usize| (slot, Output::new(1 + slot as u64, vec![down(), down()], Arc::default()));
    rig.plan.change(Change { outputs: (1..=3).map(output).collect(), ..Change::default() });
    assert_eq!(rig.plan.up, [0]);
    let mut step = |step| {
        let halves = vec![(OutputQueue { output: 2, queue: 1 }, step)];
        rig.plan.change(Change { halves, ..Change::default() });
        rig.plan.up.clone()
    };
    assert_eq!(step(HalfStep::Set(Half::Own(Egress::new(Box::new(Sink))))), [0, 2]);
    assert_eq!(step(HalfStep::Take), [0]);
}
