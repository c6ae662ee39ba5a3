//! Frames that are spliced between two rings, compared with frames that go the general way: each burst by either.

use crate::support::posting::{self, case};
use crate::support::switch::{Filler, Sender, Work};
use crate::support::{Case, Driver, ROOM, SENT, frame};
use packet::{BurstStorage, MAX_BURST, Segment};
use proptest::prelude::*;
use std::collections::VecDeque;
use virtqueue::device::{Dequeue, Enqueue, Prefetch, Spliced};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::{NET_HEADER, QueueConfig};

/// Returns the ring of a NIC, beside that of a guest, and the driver's end of it. The NIC reaches the guest's memory by host addresses.
fn nic(guest: &mut Driver, case: Case) -> (QueueConfig, Queue) {
    let config = Queue::layout(&mut guest.arena, case.size, case.negotiated()).unwrap();
    let queue = Queue::new(&guest.arena, &config).unwrap();
    (config, queue)
}

/// A step that both worlds take.
#[derive(Clone, Debug)]
enum Step {
    /// The guest posts buffers of this length, or sends frames of this length: in one piece, or in two.
    Guest { count: u8, len: u16, pieces: u8 },
    /// The NIC fills buffers with frames of this length, or sends this number of frames.
    Nic { count: u8, len: u16 },
    /// The switch works until nothing moves, on these terms.
    Switch(Work),
    /// The guest takes its buffers back.
    Collect,
}

/// Checks that it is the header of a frame of these tests.
fn check(header: packet::Ethernet) {
    let addresses = [header.destination(), header.source()].map(|address| address.to_le_bytes());
    let read = [&addresses[0][..6], &addresses[1][..6]].concat();
    assert!(frame(0, 600).windows(12).any(|bytes| bytes == read), "it is no header of a frame: {read:x?}");
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 14u16..1500, 1 => 0u16..2100];
    let rarely = || prop_oneof![3 => Just(0u8), 1 => 1u8..5];
    let pieces = prop_oneof![8 => Just(1u8), 1 => Just(2u8)];
    prop_oneof![
        3 => (1u8..40, len.clone(), pieces).prop_map(|(count, len, pieces)| Step::Guest { count, len, pieces }),
        3 => (1u8..40, len).prop_map(|(count, len)| Step::Nic { count, len }),
        4 => (1u16..=32, rarely(), rarely()).prop_map(|(most, marks, refuses)| Step::Switch(Work { most, marks, refuses, check, ..Work::USUAL })),
        2 => Just(Step::Collect),
    ]
}

/// Formats and sizes of both rings, and whether the NIC works in order.
#[derive(Clone, Copy, Debug)]
struct Rings {
    guest: (bool, u16),
    nic: (bool, u16),
    in_order: bool,
}

fn rings() -> impl Strategy<Value = Rings> {
    let size = || prop::sample::select(if cfg!(miri) { &[4u16][..] } else { &[4, 16, 64] });
    ((any::<bool>(), size()), (any::<bool>(), size()), any::<bool>()).prop_map(|(guest, nic, in_order)| Rings {
        guest,
        nic,
        in_order,
    })
}

impl Rings {
    fn nic(&self) -> Case {
        Case { in_order: self.in_order, ..case(self.nic.0, self.nic.1) }
    }
}

/// A NIC whose frames a guest gets in its buffers.
struct ToGuest {
    guest: posting::Guest,
    nic: Enqueue,
    filler: Filler,
    /// Where the NIC's part of its ring is.
    device_area: u64,
    number: u32,
    spliced: u32,
}

impl ToGuest {
    fn new(rings: Rings) -> ToGuest {
        let mut guest = posting::Guest::new(case(rings.guest.0, rings.guest.1));
        let (config, filler) = nic(&mut guest.driver, rings.nic());
        let memory = guest.driver.arena.memory().also_by_host();
        let nic = Enqueue::new(memory.into(), &config).unwrap();
        ToGuest { guest, nic, filler: Filler::new(filler), device_area: config.device, number: 0, spliced: 0 }
    }

    fn step(&mut self, step: &Step, splices: bool) {
        match *step {
            Step::Guest { count, len, pieces } => {
                self.guest.post_in(count.into(), u32::from(len.max(64)), pieces.into())
            }
            Step::Nic { count, len } => {
                let mut storage = BurstStorage::default();
                let mut burst = storage.start();
                let frames: Vec<_> = (0..u32::from(count).min(MAX_BURST as u32))
                    .map(|i| frame(self.number + i, len.clamp(14, 1000).into()))
                    .collect();
                frames.iter().for_each(|bytes| burst.push(Segment::from(&bytes[..])));
                self.number += self.nic.transmit(burst.frames()).unwrap().frames;
            }
            Step::Switch(work) => while self.round(splices, work) {},
            Step::Collect => self.guest.collect(),
        }
    }

    /// Reports whether anything moved.
    fn round(&mut self, splices: bool, work: Work) -> bool {
        let ToGuest { guest, filler, .. } = self;
        let mut moved = false;
        if splices {
            let done = filler.splice(&guest.enqueue, work);
            assert!(done.frames <= work.most.into());
            self.spliced += done.frames;
            moved = done.is_any();
            if !done.stopped {
                return moved;
            }
        }
        moved | filler.pass(&guest.enqueue, work).unwrap().is_any()
    }
}

/// Returns the device that takes a guest's queue over.
fn successor(guest: &posting::Guest) -> Enqueue {
    let config = QueueConfig { base: guest.enqueue.base(), ..guest.driver.config };
    Enqueue::new(guest.driver.arena.memory().clone(), &config).unwrap()
}

/// A guest whose frames a NIC sends from the guest's memory.
struct FromGuest {
    guest: Driver,
    dequeue: Dequeue,
    /// Areas that are free, and the area of each chain that is not, by its id.
    free: VecDeque<u16>,
    area_of: Vec<Option<u16>>,
    nic: Dequeue,
    sender: Sender,
    number: u32,
    sent: Vec<Vec<u8>>,
    returned: usize,
    spliced: u32,
}

impl FromGuest {
    fn new(rings: Rings) -> FromGuest {
        let size = rings.guest.1;
        let mut guest = Driver::new(case(rings.guest.0, size));
        let (config, sender) = nic(&mut guest, rings.nic());
        let mut dequeue = guest.dequeue();
        dequeue.allow_keeping();
        let nic = Dequeue::new(guest.arena.memory().also_by_host().into(), &config).unwrap();
        FromGuest {
            guest,
            dequeue,
            free: (0..size).collect(),
            area_of: vec![None; size.into()],
            nic,
            sender: Sender::new(sender),
            number: 0,
            sent: Vec::new(),
            returned: 0,
            spliced: 0,
        }
    }

    fn step(&mut self, step: &Step, splices: bool) {
        match *step {
            Step::Guest { count, len, pieces } => (0..count).for_each(|_| self.send(len.into(), pieces)),
            Step::Nic { count, .. } => {
                let mut storage = BurstStorage::default();
                let mut burst = storage.start();
                burst.limit(usize::from(count).min(MAX_BURST));
                self.nic.receive(&mut burst).unwrap();
                for frame in burst.frames().as_slice() {
                    let mut bytes = vec![0; frame.len() as usize];
                    burst.frames().copy_to(frame, &mut bytes);
                    self.sent.push(bytes);
                }
                self.nic.recycle();
            }
            Step::Switch(work) => while self.round(splices, work) {},
            Step::Collect => self.collect(),
        }
    }

    fn send(&mut self, len: u32, pieces: u8) {
        let cuts = match pieces {
            1 => vec![NET_HEADER + len],
            _ => vec![NET_HEADER, len],
        };
        if usize::from(self.guest.queue.free()) < cuts.len() {
            return;
        }
        let Some(area) = self.free.pop_front() else { return };
        self.guest.write(self.guest.area(area) + u64::from(NET_HEADER), &frame(self.number, len as usize));
        self.number += 1;
        let id = self.guest.add(area, &cuts, SENT).expect("there are descriptors");
        self.area_of[usize::from(id)] = Some(area);
        self.guest.queue.publish();
    }

    fn collect(&mut self) {
        while let Some(used) = self.guest.queue.pop_used().unwrap() {
            let area = self.area_of[usize::from(used.id)].take().expect("each chain comes back once");
            self.free.push_back(area);
            self.returned += 1;
        }
    }

    /// Reports whether anything moved.
    fn round(&mut self, splices: bool, work: Work) -> bool {
        let FromGuest { dequeue, sender, .. } = self;
        let mut moved = false;
        if splices {
            let room = sender.queue.free();
            let done = sender.splice(dequeue, work, u16::MAX);
            assert!(done.frames <= work.most.into() && done.frames <= u32::from(room) + u32::from(done.back));
            self.spliced += done.frames;
            moved = done.is_any();
            if !done.stopped {
                return moved;
            }
        }
        moved | sender.pass(dequeue).unwrap().is_any()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 300 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_guest_gets_the_same_frames_and_lends_the_same_buffers(
        rings in rings(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut worlds = [ToGuest::new(rings), ToGuest::new(rings)];
        for step in &steps {
            for (splices, world) in [false, true].into_iter().zip(&mut worlds) {
                world.step(step, splices);
            }
            let [general, spliced] = &worlds;
            prop_assert_eq!(general.number, spliced.number, "the NIC had as many buffers");
            if let Step::Switch(_) = step {
                prop_assert_eq!(general.filler.loans.len(), spliced.filler.loans.len());
            }
        }
        for world in &mut worlds {
            world.guest.collect();
            let expected: Vec<_> = world.guest.received.iter().map(Vec::len).collect();
            let frames = world.guest.received.iter().zip(0..).all(|(bytes, number)| *bytes == frame(number, bytes.len()));
            prop_assert!(frames, "every frame, in order: {expected:?}");
        }
        let [general, spliced] = &mut worlds;
        prop_assert_eq!(&general.guest.received, &spliced.guest.received);
        for world in [general, spliced] {
            world.filler.loans.drain().for_each(|loan| world.guest.enqueue.give_back(loan));
            world.guest.enqueue.close();
            world.guest.collect();
            let successor = successor(&world.guest);
            successor.read_ahead(512, Prefetch::No).unwrap();
            prop_assert!(successor.posted() as usize >= world.guest.area_of.len(), "all other buffers are in the ring");
        }
    }

    #[test]
    fn a_nic_sends_the_same_frames_and_the_guest_gets_every_chain_back(
        rings in rings(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut worlds = [FromGuest::new(rings), FromGuest::new(rings)];
        let last = [Step::Switch(Work::USUAL), Step::Nic { count: 32, len: 0 }, Step::Switch(Work::USUAL)];
        for step in steps.iter().chain(last.iter().cycle().take(3 * if cfg!(miri) { 8 } else { 100 })) {
            for (splices, world) in [false, true].into_iter().zip(&mut worlds) {
                world.step(step, splices);
            }
            let [general, spliced] = &worlds;
            prop_assert_eq!(general.number, spliced.number);
        }
        let [general, spliced] = &mut worlds;
        prop_assert_eq!(&general.sent, &spliced.sent);
        for world in [general, spliced] {
            world.collect();
            prop_assert_eq!((world.returned, world.sender.chains.len()), (world.number as usize, 0));
        }
    }
}

/// The usual case needs the general way for nothing.
#[test]
fn usual_bursts_are_spliced_whole() {
    let (size, bursts) = if cfg!(miri) { (4, 2) } else { (64, 20) };
    let burst = size / 2;
    for (guest, nic, in_order) in [false, true]
        .map(|guest| [false, true].map(|nic| [false, true].map(|order| (guest, nic, order))))
        .concat()
        .concat()
    {
        for (refuses, keep) in [(0, 0), (0, burst / 2), (u8::MAX, burst / 2)] {
            let work = Work { refuses, keep: keep.into(), check, ..Work::USUAL };
            let rings = Rings { guest: (guest, size), nic: (nic, size), in_order };
            let mut to = ToGuest::new(rings);
            to.guest.post_in(size.into(), 2048, 1);
            let mut from = FromGuest::new(rings);
            for _ in 0..bursts {
                assert!(to.round(true, work));
                to.step(&Step::Nic { count: burst as u8, len: 64 }, true);
                to.round(true, work);
                assert!(to.guest.enqueue.posted() >= work.keep);
                to.guest.collect();
                to.guest.post_in(size.into(), 2048, 1);

                (0..burst).for_each(|_| from.send(64, 1));
                from.round(true, work);
                from.step(&Step::Nic { count: burst as u8, len: 0 }, true);
                from.round(true, work);
                from.collect();
            }
            let all = usize::from(burst * bursts);
            assert_eq!((to.spliced as usize, to.guest.received.len()), (all, all), "{rings:?}");
            assert_eq!((from.spliced as usize, from.sent.len(), from.returned), (all, all, all), "{rings:?}");
        }
    }
}

/// A run leaves a chain of several buffers, and a ring that the NIC broke, to the general way, and says so.
#[test]
fn the_general_way_is_asked_for_what_a_run_leaves() {
    for (packed, in_order) in [(false, false), (false, true), (true, false), (true, true)] {
        let rings = Rings { guest: (false, 16), nic: (packed, 16), in_order };
        let mut from = FromGuest::new(rings);
        let area = from.guest.area(0);
        let long = [0, 100].map(|at| Buffer { addr: area + at, len: 100, writable: false });
        from.sender.queue.add(&long).unwrap();
        from.sender.queue.publish();
        from.step(&Step::Nic { count: 1, len: 0 }, true);
        for _ in 0..2 {
            let done = from.sender.splice(&from.dequeue, Work::USUAL, u16::MAX);
            assert_eq!(done, Spliced::NOTHING, "{rings:?}");
        }
        assert!(from.sender.queue.pop_used().unwrap().is_some());
    }
    let mut to = ToGuest::new(Rings { guest: (false, 16), nic: (false, 16), in_order: false });
    to.guest.post_in(4, 2048, 1);
    assert!(to.round(true, Work::USUAL));
    // The used index (virtio 1.2 §2.7.8).
    to.guest.driver.write(to.device_area + 2, &1000u16.to_le_bytes());
    assert!(to.filler.splice(&to.guest.enqueue, Work::USUAL).stopped);
    assert!(to.filler.queue.pop_used().is_err());
}

/// Loans of one queue are no loans of another.
#[test]
fn loans_of_another_queue_are_not_spliced() {
    let rings = Rings { guest: (false, 16), nic: (false, 16), in_order: false };
    let (mut one, other) = (ToGuest::new(rings), posting::Guest::new(case(false, 16)));
    one.guest.post_in(4, 2048, 1);
    assert!(one.round(true, Work::USUAL));
    assert_eq!(one.filler.splice(&other.enqueue, Work::USUAL), Spliced::NOTHING);
    assert_eq!(one.filler.loans.len(), 4);
}

const _: () = assert!(ROOM > 2100 + NET_HEADER, "frames fit into areas");
