//! Tests of a guest's queue that several workers share.

use super::{Call, VhostReceive};
use crate::port::frames::to_vec;
use crate::port::{HoldBursts, LifeCycle, RxQueue};
use packet::{BurstStorage, LeasedFrames};
use std::sync::Arc;
use virtqueue::device::Dequeue;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, features};

const SIZE: u16 = 8;

/// Length of each frame.
const LEN: u32 = 60;

/// A guest that sends frames by a shared queue.
struct Guest {
    queue: Queue,
    half: VhostReceive,
    arena: Arena,
    buffers: u64,
}

impl Guest {
    fn new(bits: u64) -> Guest {
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let ring = Queue::layout(&mut arena, SIZE, Negotiated(features::VERSION_1 | bits)).unwrap();
        let buffers = arena.allocate(u64::from(SIZE) * 2048, 4096).unwrap();
        let dequeue = Dequeue::new(arena.memory().clone(), &ring).unwrap();
        let mut half = VhostReceive::new(dequeue, None, Call::new(None), Arc::default(), Arc::default());
        half.share(true);
        Guest { queue: Queue::new(&arena, &ring).unwrap(), half, arena, buffers }
    }

    /// Sends this many frames from its first buffers.
    fn send(&mut self, count: u16) {
        for index in 0..count {
            let addr = self.buffers + u64::from(index) * 2048;
            let frame = Buffer { addr, len: NET_HEADER + LEN, writable: false };
            self.queue.add(&[frame]).expect("all came back");
        }
        self.queue.publish();
    }

    /// Receives frames and holds them: returns them, and what is held.
    fn hold(&self) -> (LeasedFrames, Vec<u16>) {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        assert!(self.half.receive(&mut burst));
        let mut leased = LeasedFrames::new(self.half.memories().into());
        leased.add(burst.frames());
        let mut held = Vec::new();
        self.half.hold(&mut held);
        self.half.recycle();
        (leased, held)
    }

    fn reclaim(&mut self) -> u16 {
        std::iter::from_fn(|| self.queue.pop_used().unwrap()).count() as u16
    }
}

#[test]
fn a_guest_gets_its_buffers_back_when_its_frames_are_processed() {
    for bits in [0, features::RING_PACKED, features::IN_ORDER, features::RING_PACKED | features::IN_ORDER] {
        let mut guest = Guest::new(bits);
        for _ in 0..5 {
            let bursts = [3, 4].map(|count| {
                guest.send(count);
                let (leased, held) = guest.hold();
                assert_eq!((leased.len(), held.len()), (count.into(), count.into()));
                held
            });
            assert_eq!(guest.reclaim(), 0, "workers read them");
            guest.half.give_back(&bursts[1]);
            guest.half.recycle();
            let waits = bits & features::IN_ORDER != 0;
            assert_eq!(guest.reclaim(), if waits { 0 } else { 4 }, "{bits:#x}");
            guest.half.give_back(&bursts[0]);
            guest.half.recycle();
            assert_eq!(guest.reclaim(), if waits { 7 } else { 3 }, "{bits:#x}");
        }
        // All that was taken was returned, so another device can go on there.
        let before = guest.half.base();
        guest.half.share(false);
        assert_eq!(guest.half.base(), before);
        guest.send(SIZE);
        assert!(guest.half.receive(&mut BurstStorage::default().start()));
        guest.half.recycle();
        assert_eq!(guest.reclaim(), SIZE);
    }
}

/// The guest leaves, and its queue with it, while a worker reads its frames.
#[test]
fn frames_of_a_guest_that_left_stay_readable() {
    let mut guest = Guest::new(0);
    let at = guest.arena.host(guest.buffers, 2048).unwrap().as_ptr();
    guest.send(2);
    let (leased, _) = guest.hold();
    drop(guest);
    let group = leased.groups().next().expect("two frames");
    assert_eq!(group.as_slice()[0].first().as_ptr(), at.wrapping_add(NET_HEADER as usize), "they were not copied");
    assert!(group.as_slice().iter().all(|frame| to_vec(&group, frame) == vec![0; LEN as usize]));
}
