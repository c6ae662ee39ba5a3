//! Frames that are spliced between a socket's rings and a guest's, compared with frames that go the general way: each burst by either.

use super::{Nic, XdpReceive, XdpTransmit};
use crate::port::zero_copy::{GuestBuffers, Mapped, ZeroCopyRx, ZeroCopyTx};
use crate::port::{LifeCycle, RxQueue, TxQueue};
use packet::BurstStorage;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use virtqueue::device::{Dequeue, Enqueue, Prefetch, Spliced};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};
use xsk::Descriptor;

/// Descriptors of a guest's ring, and its buffers, of this length.
const SIZE: u16 = 64;
const BUFFER: u32 = 2048;

/// The header of a frame in one buffer, without offloads.
const HEADER: [u8; NET_HEADER as usize] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// A step that both worlds take.
#[derive(Clone, Debug)]
enum Step {
    /// The guest posts buffers of this length, or sends frames of this length: in one piece, or in two.
    Guest { count: u8, len: u16, pieces: u8 },
    /// The kernel receives frames of this length, or sends this number of frames. It returns each after this number of others.
    Kernel { count: u8, len: u16, after: u8 },
    /// The switch works until nothing moves: in bursts of at most this length if it splices.
    Switch { most: u8 },
    /// The worker goes to sleep: the queue offers buffers of its own.
    Sleep,
    /// The guest takes its buffers back.
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![8 => 14u16..1500, 1 => 0u16..2000];
    let pieces = prop_oneof![12 => Just(1u8), 1 => Just(2u8)];
    let after = prop_oneof![3 => Just(0u8), 1 => 1u8..6];
    prop_oneof![
        6 => (1u8..40, len.clone(), pieces).prop_map(|(count, len, pieces)| Step::Guest { count, len, pieces }),
        6 => (1u8..40, len, after).prop_map(|(count, len, after)| Step::Kernel { count, len, after }),
        8 => (1u8..=32).prop_map(|most| Step::Switch { most }),
        1 => Just(Step::Sleep),
        4 => Just(Step::Collect),
    ]
}

/// Returns the bytes of a frame.
fn frame(number: u32, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// A guest's queue, and its buffers.
struct Driver {
    arena: Arc<Arena>,
    config: QueueConfig,
    queue: Queue,
    buffers: u64,
    /// Buffers that the guest has, and the buffer of each chain that it does not have, by id.
    free: VecDeque<u16>,
    outside: Vec<Option<u16>>,
}

impl Driver {
    fn new(packed: bool) -> Driver {
        let bits = features::VERSION_1 | if packed { features::RING_PACKED } else { 0 };
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let config = Queue::layout(&mut arena, SIZE, Negotiated(bits)).unwrap();
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(BUFFER), 4096).unwrap();
        let queue = Queue::new(&arena, &config).unwrap();
        let (free, outside) = ((0..SIZE).collect(), vec![None; SIZE.into()]);
        Driver { arena: Arc::new(arena), config, queue, buffers, free, outside }
    }

    fn at(&self, buffer: u16) -> u64 {
        self.buffers + u64::from(buffer) * u64::from(BUFFER)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.arena.gather(at, std::iter::once(bytes.into())).unwrap();
    }

    fn read(&self, at: u64, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.arena.segment(at, len).unwrap().copy_to(&mut bytes);
        bytes
    }

    /// Makes a buffer available: as many bytes of it, in this number of pieces. Returns it, if there is one.
    fn add(&mut self, len: u32, pieces: u8, writable: bool) -> Option<u16> {
        if self.queue.free() < pieces.into() {
            return None;
        }
        let buffer = self.free.pop_front()?;
        let addr = self.at(buffer);
        let first = if pieces == 1 { len } else { NET_HEADER };
        let all = [
            Buffer { addr, len: first, writable },
            Buffer { addr: addr + u64::from(first), len: len - first, writable },
        ];
        let id = self.queue.add(&all[..pieces.into()]).unwrap();
        assert_eq!(self.outside[usize::from(id)].replace(buffer), None);
        self.queue.publish();
        Some(buffer)
    }

    /// Takes the next buffer back, with the number of bytes written.
    fn take(&mut self) -> Option<(u16, u32)> {
        let used = self.queue.pop_used().unwrap()?;
        let buffer = self.outside[usize::from(used.id)].take().expect("each chain comes back once");
        self.free.push_back(buffer);
        Some((buffer, used.len))
    }
}

/// A switch between a queue and a guest.
struct World<G> {
    driver: Driver,
    guest: G,
    rx: XdpReceive,
    tx: XdpTransmit,
    nic: Nic,
    mapped: Arc<Mapped>,
    splices: bool,
    spliced: u32,
    number: u32,
    /// Frames that arrived at the other side.
    arrived: Vec<Vec<u8>>,
    storage: Box<BurstStorage>,
}

impl<G> World<G> {
    fn new(
        packed: bool,
        size: u16,
        splices: bool,
        unfinished: bool,
        guest: impl FnOnce(&Driver) -> (G, u64),
    ) -> World<G> {
        let driver = Driver::new(packed);
        let (guest, from) = guest(&driver);
        let mapped = Arc::new(Mapped::new(true, Some(0)));
        mapped.set_reachable(Some(driver.arena.memory().clone()));
        mapped.set_in_place_from(from);
        let (rx, tx, nic) = Nic::open(driver.arena.clone(), size, Some(mapped.clone()), unfinished).unwrap();
        let (arrived, storage) = (Vec::new(), Box::default());
        World { driver, guest, rx, tx, nic, mapped, splices, spliced: 0, number: 0, arrived, storage }
    }

    /// Notes a splice. Returns whether anything moved, and whether the general way has to go on.
    fn note(&mut self, done: Spliced) -> (bool, bool) {
        self.spliced += done.frames;
        (done.is_any(), done.stopped && done.frames == 0)
    }
}

/// Frames to a guest.
type ToGuest = World<GuestBuffers>;

fn to_guest(packed: bool, size: u16, splices: bool, unfinished: bool) -> ToGuest {
    World::new(packed, size, splices, unfinished, |driver| {
        let ring = Enqueue::new(driver.arena.memory().clone(), &driver.config).unwrap();
        (GuestBuffers::new(ring, Arc::default()), 0)
    })
}

impl ToGuest {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Guest { mut count, len, pieces } => {
                let len = if len < 1000 { BUFFER } else { len.into() };
                while count > 0 && self.post(len, pieces) {
                    count -= 1;
                }
            }
            Step::Kernel { count, len, after } => self.receive(count, usize::from(len).clamp(14, 1518), after),
            Step::Switch { most } => while self.round(most.into()) {},
            Step::Sleep => drop(self.rx.arm()),
            Step::Collect => self.collect(),
        }
    }

    /// Posts a buffer. Reports whether there was one.
    fn post(&mut self, len: u32, pieces: u8) -> bool {
        let buffer = self.driver.add(len, pieces, true);
        buffer.inspect(|&buffer| self.driver.write(self.driver.at(buffer), &[0xee; NET_HEADER as usize])).is_some()
    }

    fn receive(&mut self, count: u8, len: usize, after: u8) {
        let mut waiting = VecDeque::new();
        for _ in 0..count {
            let Some(filled) = self.nic.kernel.take_filled() else { break };
            waiting.push_back(filled);
            if waiting.len() > usize::from(after) {
                // Not the first one: it comes back last.
                let filled = waiting.remove(usize::from(after > 0)).expect("there are more");
                self.receive_in(filled, len);
            }
        }
        waiting.into_iter().for_each(|filled| self.receive_in(filled, len));
    }

    fn receive_in(&mut self, filled: u64, len: usize) {
        self.nic.receive(filled, &frame(self.number, len));
        self.number += 1;
    }

    /// Does the work of a worker's round. Reports whether anything moved.
    fn round(&mut self, most: u16) -> bool {
        let mut moved = false;
        if self.splices {
            let done = self.rx.splice(&self.guest, most, None);
            let (any, goes_on) = self.note(done);
            moved = any;
            if !goes_on {
                return moved;
            }
        }
        let mut burst = self.storage.start();
        let (receive, guest) = (&self.rx, &self.guest);
        let any = receive.receive_into(guest, &mut burst);
        if any {
            guest.ring().transmit(burst.frames()).unwrap();
        }
        receive.relend(guest) | any | moved
    }

    fn collect(&mut self) {
        while let Some((buffer, written)) = self.driver.take() {
            let at = self.driver.at(buffer);
            if written > 0 {
                assert_eq!(self.driver.read(at, NET_HEADER), HEADER);
                self.arrived.push(self.driver.read(at + u64::from(NET_HEADER), written - NET_HEADER));
            }
        }
    }

    /// Ends the queue, and then the guest's, which loses no buffer.
    fn end(&mut self) {
        self.rx.stop();
        self.rx.recall(&self.guest);
        self.guest.close();
        self.collect();
        let config = QueueConfig { base: self.guest.ring().base(), ..self.driver.config };
        let successor = Enqueue::new(self.driver.arena.memory().clone(), &config).unwrap();
        successor.read_ahead(512, Prefetch::No).unwrap();
        let outside = self.driver.outside.iter().flatten().count();
        assert!(successor.posted() as usize >= outside, "buffers that the guest does not have are in its ring");
    }
}

/// Frames of a guest.
type FromGuest = World<Dequeue>;

fn from_guest(packed: bool, size: u16, splices: bool) -> FromGuest {
    World::new(packed, size, splices, false, |driver| {
        let mut ring = Dequeue::new(driver.arena.memory().clone(), &driver.config).unwrap();
        ring.allow_keeping();
        let id = ring.id();
        (ring, id)
    })
}

impl FromGuest {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Guest { count, len, pieces } => (0..count).for_each(|_| self.send(len.into(), pieces)),
            Step::Kernel { count, after, .. } => self.take_sent(count, after),
            Step::Switch { most } => while self.round(most.into()) {},
            Step::Sleep | Step::Collect => while self.driver.take().is_some() {},
        }
    }

    fn send(&mut self, len: u32, pieces: u8) {
        let Some(buffer) = self.driver.add(NET_HEADER + len, pieces, false) else { return };
        self.driver.write(self.driver.at(buffer) + u64::from(NET_HEADER), &frame(self.number, len as usize));
        self.number += 1;
    }

    fn take_sent(&mut self, count: u8, after: u8) {
        let mut waiting: VecDeque<Descriptor> = VecDeque::new();
        for _ in 0..count {
            let Some((sent, bytes)) = self.nic.take_sent() else { break };
            self.arrived.push(bytes);
            waiting.push_back(sent);
            if waiting.len() > usize::from(after) {
                let sent = waiting.remove(usize::from(after > 0)).expect("there are more");
                self.nic.kernel.complete(sent);
            }
        }
        waiting.into_iter().for_each(|sent| self.nic.kernel.complete(sent));
    }

    /// Does the work of a worker's round. Reports whether anything moved.
    fn round(&mut self, most: u16) -> bool {
        let mut moved = false;
        if self.splices {
            let done = self.tx.splice(&self.guest, most, None);
            let (any, goes_on) = self.note(done);
            moved = any;
            if !goes_on {
                return moved;
            }
        }
        let (transmit, guest) = (&self.tx, &self.guest);
        transmit.returned(&mut |ids| {
            guest.release(ids.iter().copied());
            moved = true;
        });
        let mut burst = self.storage.start();
        let taken = guest.receive(&mut burst).unwrap();
        if taken > 0 {
            transmit.transmit(burst.frames());
            guest.keep(burst.kept());
        }
        guest.recycle();
        moved | (taken > 0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// If all of the guest's buffers are fit. If not, the number of own chunks that the kernel has depends on when that was found out.
    #[test]
    fn a_guest_gets_the_same_frames_and_lends_the_same_buffers(
        packed in any::<bool>(),
        size in prop::sample::select(&[16u16, 64, 256][..]),
        (fit, unfinished) in any::<(bool, bool)>(),
        mut steps in prop::collection::vec(step(), 1..80),
    ) {
        if fit {
            for step in &mut steps {
                if let Step::Guest { len, pieces, .. } = step {
                    (*len, *pieces) = (BUFFER as u16, 1);
                }
            }
        }
        let mut worlds = [false, true].map(|splices| to_guest(packed, size, splices, unfinished));
        for step in &steps {
            worlds.iter_mut().for_each(|world| world.step(step));
            let [general, spliced] = &worlds;
            if let Step::Switch { .. } = step && fit {
                let counts = |world: &ToGuest| {
                    let Mapped { on_loan, in_place, copied, .. } = &*world.mapped;
                    (world.number, on_loan.get(), in_place.get(), copied.get())
                };
                prop_assert_eq!(counts(general), counts(spliced));
            }
        }
        worlds.iter_mut().for_each(ToGuest::end);
        for world in &worlds {
            let mut next = 0;
            for bytes in &world.arrived {
                let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                prop_assert!(number >= next && *bytes == frame(number, bytes.len()), "frame {}", number);
                next = number + 1;
            }
        }
        let [general, spliced] = &worlds;
        if fit {
            prop_assert_eq!(&general.arrived, &spliced.arrived);
        }
    }

    #[test]
    fn a_nic_sends_the_same_frames_and_the_guest_gets_every_chain_back(
        packed in any::<bool>(),
        size in prop::sample::select(&[16u16, 128][..]),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut worlds = [false, true].map(|splices| from_guest(packed, size, splices));
        for step in &steps {
            worlds.iter_mut().for_each(|world| world.step(step));
        }
        for world in &mut worlds {
            for _ in 0..100 {
                world.step(&Step::Switch { most: 32 });
                world.take_sent(32, 0);
            }
            while world.driver.take().is_some() {}
            prop_assert_eq!(world.driver.free.len(), usize::from(SIZE));
            prop_assert!(!world.tx.keeps());
        }
        let [general, spliced] = &worlds;
        // In a shorter ring, frames that find no room are dropped in the general way, and wait in the guest's ring if they are spliced.
        if size > SIZE {
            prop_assert_eq!(general.number, spliced.number);
            prop_assert_eq!(&general.arrived, &spliced.arrived);
        }
    }
}

/// The usual case needs the general way for nothing.
#[test]
fn usual_bursts_are_spliced_whole() {
    for (packed, after) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
        let mut to = to_guest(packed, 64, true, false);
        let mut from = from_guest(packed, 256, true);
        for round in 1..=20 {
            while to.post(BUFFER, 1) {}
            to.round(32);
            to.receive(32, 64, after);
            to.round(32);
            to.collect();

            (0..32).for_each(|_| from.send(64, 1));
            from.round(32);
            from.take_sent(32, after);
            from.round(32);
            while from.driver.take().is_some() {}
            assert_eq!((to.spliced, to.arrived.len()), (32 * round, 32 * round as usize));
            assert_eq!((from.spliced, from.arrived.len()), (32 * round, 32 * round as usize));
        }
    }
}

/// A frame that its sender left unfinished, as of a machine without hardware for it, is finished.
#[test]
fn an_unfinished_checksum_is_finished() {
    let mut bytes = frame(7, 60);
    // Ethernet, IPv4 without options, UDP, whose checksum is the sum of its pseudo-header.
    bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
    bytes[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[34..42].copy_from_slice(&[0, 7, 0, 7, 0, 26, 0x14, 0x2e]);
    let patch = packet::unfinished::recognise(std::iter::once(bytes[..].into())).expect("it is unfinished");
    let mut finished = bytes.clone();
    patch.apply(&mut finished);
    for (splices, unfinished) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = to_guest(false, 16, splices, unfinished);
        world.post(BUFFER, 1);
        world.round(32);
        let filled = world.nic.kernel.take_filled().unwrap();
        world.nic.receive(filled, &bytes);
        world.round(32);
        world.collect();
        assert_eq!(world.spliced, u32::from(splices));
        assert_eq!(world.arrived, [if unfinished { &finished } else { &bytes }].map(Vec::clone));
    }
}

/// The guest posts the same buffer many times, or memory that it does not have.
#[test]
fn a_hostile_guest_harms_itself_alone() {
    for splices in [false, true] {
        let mut world = to_guest(false, 16, splices, false);
        let same = world.driver.at(0);
        let bad = [u64::MAX - 2047, 0, same + (1 << 30)];
        for addr in std::iter::repeat_n(same, 12).chain(bad) {
            world.driver.queue.add(&[Buffer { addr, len: BUFFER, writable: true }]).unwrap();
        }
        world.driver.queue.publish();
        while world.round(32) {}
        assert_eq!(world.mapped.on_loan.get(), 12);
        for number in 0..12 {
            let filled = world.nic.kernel.take_filled().unwrap();
            world.nic.receive(filled, &frame(number, 100));
            world.round(32);
        }
        world.rx.stop();
        world.rx.recall(&world.guest);
        let mut returned = Vec::new();
        while let Some(used) = world.driver.queue.pop_used().unwrap() {
            returned.push(used.id);
        }
        returned.sort_unstable();
        returned.dedup();
        assert!(returned.len() >= 12, "each comes back, and once: {returned:?}");
        assert_eq!(world.mapped.in_place.get(), 12);
    }
}
