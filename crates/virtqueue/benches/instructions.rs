//! Instructions that a burst takes, counted by valgrind: exact, whatever else the machine does.
//!
//! `cargo xtask test --only instructions` runs this and compares with `bench/baseline/instructions.json`.
#![allow(missing_docs)] // The macros' own items.

use gungraun::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{BurstStorage, Frames, MAX_BURST, MAX_CHAIN, NET_HEADER, Negotiated, features};

const SIZE: u16 = 256;
const ROOM: u32 = 2048;
/// Bursts that pass before the one that counts.
const WARM_UP: usize = 20;

/// One queue with an honest driver.
struct Guest {
    arena: Arena,
    queue: Queue,
    config: virtqueue::QueueConfig,
    buffers: u64,
    next: u64,
}

impl Guest {
    fn new(packed: bool) -> Guest {
        Guest::sized(packed, SIZE)
    }

    fn sized(packed: bool, size: u16) -> Guest {
        let ring = if packed { features::RING_PACKED } else { 0 };
        let bits = features::VERSION_1 | features::IN_ORDER | features::EVENT_IDX | features::MRG_RXBUF | ring;
        let room = u64::from(size) * u64::from(ROOM);
        let mut arena = Arena::new(room + (1 << 20), false).unwrap();
        let config = Queue::layout(&mut arena, size, Negotiated(bits)).unwrap();
        let buffers = arena.allocate(room, 4096).unwrap();
        let queue = Queue::new(&arena, &config).unwrap();
        Guest { arena, queue, config, buffers, next: 0 }
    }

    /// Makes a burst of buffers of `len` bytes available.
    fn offer(&mut self, len: u32, writable: bool) {
        for _ in 0..MAX_BURST {
            let addr = self.buffers + self.next % u64::from(SIZE) * u64::from(ROOM);
            self.next += 1;
            self.queue.add(&[Buffer { addr, len, writable }]).unwrap();
        }
        self.queue.publish();
    }

    /// Makes a chain of so many buffers of one byte available.
    fn offer_bytes(&mut self, count: u16, writable: bool) {
        let buffers: Vec<_> =
            (0..count).map(|i| Buffer { addr: self.buffers + u64::from(i), len: 1, writable }).collect();
        self.queue.add(&buffers).unwrap();
        self.queue.publish();
    }

    fn reclaim(&mut self) {
        while self.queue.pop_used().unwrap().is_some() {}
    }
}

/// A guest's transmit queue with a burst in it, another's receive queue with room for it, and a burst in hand. All of
/// it lives as long as the process, so that a burst can borrow from it.
pub struct Rig {
    dequeue: &'static Dequeue,
    enqueue: &'static Enqueue,
    storage: &'static mut BurstStorage,
    in_hand: Frames<'static>,
}

fn rig(packed: bool, len: u32) -> Rig {
    let (mut from, mut to) = (Guest::new(packed), Guest::new(packed));
    let dequeue: &Dequeue = Box::leak(Box::new(Dequeue::new(from.arena.memory().clone(), &from.config).unwrap()));
    let enqueue: &Enqueue = Box::leak(Box::new(Enqueue::new(to.arena.memory().clone(), &to.config).unwrap()));
    let storage = Box::leak(Box::<BurstStorage>::default());
    (0..4).for_each(|_| to.offer(ROOM, true));
    for _ in 0..WARM_UP {
        from.offer(len + NET_HEADER, false);
        let mut burst = storage.start();
        assert_eq!(dequeue.receive(&mut burst), Ok(MAX_BURST));
        assert_eq!(enqueue.transmit(burst.frames()).unwrap().frames as usize, MAX_BURST);
        dequeue.recycle();
        from.reclaim();
        to.reclaim();
        to.offer(ROOM, true);
    }
    from.offer(len + NET_HEADER, false);
    let bytes: &[u8] = vec![0x42; len as usize].leak();
    let burst = Box::leak(Box::new(Box::leak(Box::<BurstStorage>::default()).start()));
    (0..MAX_BURST).for_each(|_| burst.push(bytes.into()));
    std::mem::forget((from, to));
    Rig { dequeue, enqueue, storage, in_hand: burst.frames() }
}

#[library_benchmark(setup = rig)]
#[bench::split_64(false, 64)]
#[bench::split_1518(false, 1518)]
#[bench::packed_64(true, 64)]
#[bench::packed_1518(true, 1518)]
fn dequeue(rig: Rig) {
    let mut burst = rig.storage.start();
    black_box(rig.dequeue.receive(&mut burst)).ok();
    rig.dequeue.recycle();
}

#[library_benchmark(setup = rig)]
#[bench::split_64(false, 64)]
#[bench::split_1518(false, 1518)]
#[bench::packed_64(true, 64)]
#[bench::packed_1518(true, 1518)]
fn enqueue(rig: Rig) {
    black_box(rig.enqueue.transmit(rig.in_hand)).ok();
}

#[library_benchmark(setup = rig)]
#[bench::split_64(false, 64)]
#[bench::split_1518(false, 1518)]
#[bench::packed_64(true, 64)]
#[bench::packed_1518(true, 1518)]
fn patch(rig: Rig) {
    let mut burst = rig.storage.start();
    black_box(rig.dequeue.receive(&mut burst)).ok();
    black_box(rig.enqueue.transmit(burst.frames())).ok();
    rig.dequeue.recycle();
}

/// Buffers of the two chains that cost most: the first leaves one descriptor of the budget of a call, and the second is the
/// longest.
const WORST: [u16; 2] = [255, MAX_CHAIN];

/// A transmit queue with the two chains.
fn worst_sender(packed: bool) -> &'static Dequeue {
    let mut guest = Guest::sized(packed, 2 * MAX_CHAIN);
    let dequeue = Dequeue::new(guest.arena.memory().clone(), &guest.config).unwrap();
    WORST.into_iter().for_each(|count| guest.offer_bytes(count, false));
    std::mem::forget(guest);
    Box::leak(Box::new(dequeue))
}

#[library_benchmark]
#[bench::split(worst_sender(false), Box::default())]
#[bench::packed(worst_sender(true), Box::default())]
fn worst_receive(dequeue: &'static Dequeue, mut storage: Box<BurstStorage>) {
    let mut burst = storage.start();
    black_box(dequeue.receive(&mut burst)).ok();
    dequeue.recycle();
}

/// A receive queue with the two chains, and a burst that fills both, whose other frames would need more.
fn worst_receiver(packed: bool) -> (&'static Enqueue, Frames<'static>) {
    let mut guest = Guest::sized(packed, 2 * MAX_CHAIN);
    let enqueue = Enqueue::new(guest.arena.memory().clone(), &guest.config).unwrap();
    WORST.into_iter().for_each(|count| guest.offer_bytes(count, true));
    std::mem::forget(guest);
    let bytes: &[u8] = vec![0x42; 1500].leak();
    let burst = Box::leak(Box::new(Box::leak(Box::<BurstStorage>::default()).start()));
    let filling = WORST.map(|count| usize::from(count) - NET_HEADER as usize);
    filling.into_iter().chain([1500; MAX_BURST - 2]).for_each(|len| burst.push(bytes[..len].into()));
    (Box::leak(Box::new(enqueue)), burst.frames())
}

#[library_benchmark(setup = worst_receiver)]
#[bench::split(false)]
#[bench::packed(true)]
fn worst_transmit((enqueue, frames): (&'static Enqueue, Frames<'static>)) {
    black_box(enqueue.transmit(frames)).ok();
}

library_benchmark_group!(name = burst_of_32, benchmarks = [dequeue, enqueue, patch, worst_receive, worst_transmit]);
main!(library_benchmark_groups = burst_of_32);
