//! Tests of buffers that are held beyond their burst, and given back in any order.

use crate::port::virtio_user::{QueueResources, STRIDE, VirtioReceive};
use crate::port::zero_copy::Mapped;
use crate::port::{HoldBursts, RxQueue};
use packet::{BurstStorage, LeasedFrames, Segment};
use proptest::prelude::*;
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::Enqueue;
use virtqueue::driver::Queue;
use virtqueue::memory::Arena;
use virtqueue::{Negotiated, features};

const SIZE: u16 = 16;

/// A port without a guest, its device, and frames that are numbered from zero.
struct Rig {
    port: VirtioReceive,
    device: Enqueue,
    sent: u32,
    received: u32,
    bursts: Vec<HeldBurst>,
}

/// Frames that others still read, and their buffers.
struct HeldBurst {
    frames: LeasedFrames,
    buffers: Vec<u16>,
    expected: Vec<Vec<u8>>,
}

/// Returns the frame of this number, of one buffer; if some are `long`, of up to three.
fn frame(number: u32, long: bool) -> Vec<u8> {
    let len =
        if long && number.is_multiple_of(3) { 60 + number as usize * 389 % 5000 } else { 60 + number as usize % 100 };
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

impl Rig {
    fn new(mergeable: bool, mapped: Option<Arc<Mapped>>, outer: u32) -> Rig {
        let negotiated = Negotiated(features::VERSION_1 | if mergeable { features::MRG_RXBUF } else { 0 });
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let ring = Queue::layout(&mut arena, SIZE, negotiated).unwrap();
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(STRIDE), 4096).unwrap();
        let queue = QueueEnd::create(Queue::new(&arena, &ring).unwrap(), ring).unwrap();
        let device = Enqueue::new(arena.memory().clone(), &ring).unwrap();
        let end =
            QueueResources { queue, buffers, arena: Arc::new(arena), broken: Arc::default(), drops: Arc::default() };
        let port = VirtioReceive::new(end, mergeable, mapped, outer);
        Rig { port, device, sent: 0, received: 0, bursts: Vec::new() }
    }

    /// Makes the device send up to `count` frames; returns how many it had buffers for.
    fn send(&mut self, count: u32, long: bool) -> u32 {
        for sent in 0..count {
            let bytes = frame(self.sent, long);
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            burst.push(Segment::from(&bytes[..]));
            if self.device.transmit(burst.frames()).unwrap().frames == 0 {
                return sent;
            }
            self.sent += 1;
        }
        count
    }

    /// Receives a burst, and recycles. Holds its buffers, if `hold` says so.
    fn receive(&mut self, hold: bool, long: bool) -> usize {
        let mut held = HeldBurst {
            frames: LeasedFrames::new(self.port.memories().into()),
            buffers: Vec::new(),
            expected: Vec::new(),
        };
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        self.port.receive(&mut burst);
        let frames = burst.frames();
        for received in frames.as_slice() {
            let mut bytes = vec![0; received.len() as usize];
            frames.copy_to(received, &mut bytes);
            assert_eq!(bytes, frame(self.received, long));
            self.received += 1;
            held.expected.push(bytes);
        }
        let count = frames.len();
        if hold {
            held.frames.add(frames);
            self.port.hold(&mut held.buffers);
            assert!(held.buffers.len() >= count);
            self.bursts.push(held);
        }
        self.port.recycle();
        count
    }

    /// Checks that nobody wrote to the frames of a burst, and gives its buffers back.
    fn give_back(&mut self, burst: usize) {
        let held = self.bursts.swap_remove(burst);
        let frames = held.frames.groups().flat_map(|group| {
            group.as_slice().iter().map(move |frame| {
                let mut bytes = vec![0; frame.len() as usize];
                group.copy_to(frame, &mut bytes);
                bytes
            })
        });
        assert!(frames.eq(held.expected));
        self.port.give_back(&held.buffers);
        self.port.recycle();
    }

    fn held(&self) -> usize {
        self.bursts.iter().map(|burst| burst.buffers.len()).sum()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u32),
    /// Receives a burst, and holds it or not.
    Receive(bool),
    /// Gives one of the held bursts back.
    GiveBack(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..10u32).prop_map(Step::Send),
        prop::bool::weighted(0.8).prop_map(Step::Receive),
        any::<prop::sample::Index>().prop_map(Step::GiveBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Bursts are held and given back in any order: none of their buffers is filled meanwhile, all others are, and in the
    /// end the device has each buffer once.
    #[test]
    fn held_buffers_come_back_once(mergeable: bool, steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = Rig::new(mergeable, None, 0);
        for step in steps {
            match step {
                Step::Send(count) => drop(rig.send(count, mergeable)),
                Step::Receive(hold) => drop(rig.receive(hold, mergeable)),
                Step::GiveBack(_) if rig.bursts.is_empty() => {}
                Step::GiveBack(burst) => rig.give_back(burst.index(rig.bursts.len())),
            }
            prop_assert!(rig.held() <= rig.port.buffers());
        }
        while rig.receive(false, mergeable) > 0 {}
        let free = u32::from(SIZE) - rig.held() as u32;
        if !mergeable {
            prop_assert_eq!(rig.send(SIZE.into(), false), free, "what is not held was offered");
            prop_assert_eq!(rig.receive(false, false), free as usize);
        }
        (0..rig.bursts.len()).for_each(|_| rig.give_back(0));
        prop_assert_eq!(rig.send(u32::from(SIZE) + 1, false), u32::from(SIZE), "each frame has a buffer of its own");
        rig.receive(true, false);
        let mut buffers = rig.bursts[0].buffers.clone();
        buffers.sort_unstable();
        prop_assert_eq!(buffers, (0..SIZE).collect::<Vec<_>>());
    }
}

/// A queue that may lend, and has no guest: it offers free buffers up to its reserve, even while others are held.
#[test]
fn a_queue_without_its_guest_works_while_all_buffers_are_held() {
    for outer in [0, 50] {
        let mut rig = Rig::new(true, Some(Arc::new(Mapped::new(false, Some(0)))), outer);
        for round in 0..3 {
            assert_eq!(rig.send(u32::from(SIZE) + 1, false), u32::from(SIZE), "round {round}");
            assert_eq!(rig.receive(true, false), usize::from(SIZE));
            assert_eq!((rig.send(1, false), rig.receive(true, false)), (0, 0));
            while !rig.bursts.is_empty() {
                rig.give_back(rig.bursts.len() - 1);
            }
        }
    }
}
