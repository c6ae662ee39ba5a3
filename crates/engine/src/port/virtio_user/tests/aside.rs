//! Tests of a mapped queue whose frames are processed by others: the guest's buffers are set aside, its own ones are held.

use super::{BUFFER, Mapping};
use crate::port::zero_copy::ZeroCopyRx;
use crate::port::{Ending, HoldBursts, RxQueue};
use packet::{BurstStorage, LeasedFrames, Segment};
use proptest::prelude::*;
use std::collections::VecDeque;
use virtqueue::NET_HEADER;
use virtqueue::device::{Aside, Prefetch};
use virtqueue::driver::Buffer;

const SIZE: u16 = 16;

/// A burst that others process.
struct Batch {
    frames: LeasedFrames,
    held: Vec<u16>,
    aside: Aside,
    expected: Vec<Vec<u8>>,
}

/// A mapping, its guest, and frames that are numbered from zero.
struct Rig {
    mapping: Mapping,
    outer: usize,
    sent: u32,
    received: u32,
    batches: Vec<Batch>,
    /// Buffers of the guest that are not posted, and the buffer of each chain, by id.
    free: VecDeque<u16>,
    posted: Vec<Option<u16>>,
    arrived: Vec<Vec<u8>>,
    expected: Vec<Vec<u8>>,
}

impl Rig {
    fn new(outer: u32) -> Rig {
        Rig {
            mapping: Mapping::sized(SIZE, outer),
            outer: outer as usize,
            sent: 0,
            received: 0,
            batches: Vec::new(),
            free: (0..SIZE).collect(),
            posted: vec![None; SIZE.into()],
            arrived: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Returns the frame of this number, without the headers that are removed.
    fn frame(number: u32) -> Vec<u8> {
        number.to_le_bytes().into_iter().cycle().take(60 + number as usize * 31 % 1000).collect()
    }

    fn post(&mut self, count: u16) {
        for _ in 0..count {
            let Some(number) = self.free.pop_front() else { break };
            let buffer = Buffer { addr: self.mapping.buffer(number.into()), len: BUFFER, writable: true };
            let id = self.mapping.posted.add(&[buffer]).expect("as many descriptors as buffers");
            assert_eq!(self.posted[usize::from(id)].replace(number), None);
        }
        self.mapping.posted.publish();
        self.mapping.port.relend(&self.mapping.guest);
    }

    /// Makes the device send up to `count` frames, limited by its buffers.
    fn send(&mut self, count: u16) {
        for _ in 0..count {
            let bytes = [vec![0xee; self.outer], Rig::frame(self.sent)].concat();
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            burst.push(Segment::from(&bytes[..]));
            self.sent += self.mapping.device.transmit(burst.frames()).unwrap().frames;
        }
    }

    /// Receives a burst for others.
    fn receive(&mut self) {
        let Mapping { port, guest, .. } = &self.mapping;
        let mut frames = LeasedFrames::new(port.memories().into());
        let (mut held, mut aside, mut expected) = (Vec::new(), Aside::default(), Vec::new());
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        port.receive_into(guest, &mut burst);
        // As a tunnel's stage does.
        burst.trim(|_, frame| Some((self.outer as u32, frame.len())));
        for _ in 0..burst.len() {
            expected.push(Rig::frame(self.received));
            self.received += 1;
        }
        frames.add(burst.frames());
        assert!(guest.set_aside(&mut aside));
        port.hold(&mut held);
        port.relend(guest);
        self.batches.push(Batch { frames, held, aside, expected });
    }

    /// Ends a batch. If its frames go to the guest, those in its buffers do in place, others as long as it has posted buffers.
    fn end(&mut self, batch: usize, goes: bool) {
        let Mapping { port, guest, .. } = &self.mapping;
        let mut batch = self.batches.swap_remove(batch);
        assert!(guest.take_up(&mut batch.aside));
        guest.ring().read_ahead(SIZE.into(), Prefetch::No).unwrap();
        let (mut number, mut copies) = (0, guest.ring().posted());
        for group in batch.frames.groups() {
            for frame in group.as_slice() {
                let mut bytes = vec![0; frame.len() as usize];
                group.copy_to(frame, &mut bytes);
                assert_eq!(bytes, batch.expected[number], "nobody wrote to it");
                number += 1;
                if goes && (frame.is_lent() || copies > 0) {
                    copies -= u32::from(!frame.is_lent());
                    self.expected.push(bytes);
                }
            }
            if goes {
                guest.ring().transmit(group).unwrap();
            }
        }
        assert_eq!(number, batch.expected.len());
        port.give_back(&batch.held);
        port.relend(guest);
    }

    fn sleep(&self) {
        self.mapping.port.arm();
        self.mapping.port.disarm();
    }

    fn collect(&mut self) {
        while let Some(used) = self.mapping.posted.pop_used().unwrap() {
            let number = self.posted[usize::from(used.id)].take().expect("each chain comes back once");
            self.free.push_back(number);
            if used.len > 0 {
                let at = self.mapping.buffer(number.into()) + u64::from(NET_HEADER);
                let mut bytes = vec![0; (used.len - NET_HEADER) as usize];
                self.mapping.arena.segment(at, bytes.len() as u32).unwrap().copy_to(&mut bytes);
                self.arrived.push(bytes);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Post(u16),
    Send(u16),
    Receive,
    /// Offers the queue's own buffers, too, and goes on.
    Sleep,
    End(prop::sample::Index, bool),
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..SIZE).prop_map(Step::Post),
        (1..SIZE).prop_map(Step::Send),
        Just(Step::Receive),
        Just(Step::Sleep),
        (any::<prop::sample::Index>(), prop::bool::weighted(0.8)).prop_map(|(batch, goes)| Step::End(batch, goes)),
        Just(Step::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Batches end in any order. Their frames arrive in place, as they came, and every buffer of the guest comes back once.
    #[test]
    fn batches_of_a_mapped_queue_end_in_any_order(
        outer in prop::sample::select(&[0u32, 50][..]),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut rig = Rig::new(outer);
        for step in steps {
            match step {
                Step::Post(count) => rig.post(count),
                Step::Send(count) => rig.send(count),
                Step::Receive => rig.receive(),
                Step::Sleep => rig.sleep(),
                Step::End(..) if rig.batches.is_empty() => {}
                Step::End(batch, goes) => rig.end(batch.index(rig.batches.len()), goes),
                Step::Collect => rig.collect(),
            }
            prop_assert_eq!(rig.mapping.mapped.why_none(), None, "no buffer was taken for unfit");
        }
        while !rig.batches.is_empty() {
            rig.end(0, true);
        }
        rig.mapping.port.recall(&rig.mapping.guest);
        // A successor would find those that were not read yet.
        rig.mapping.guest.ring().read_ahead(SIZE.into(), Prefetch::No).unwrap();
        rig.mapping.guest.close();
        rig.collect();
        prop_assert_eq!(&rig.arrived, &rig.expected);
        // A ring that never lent is left as it is.
        let ring = rig.mapping.guest.ring();
        prop_assert_eq!((rig.free.len() + ring.posted() as usize, ring.aside()), (SIZE.into(), 0));
    }
}

/// Frames in the queue's own buffers are copied to the guest when their batch ends: until then buffers stay in its ring.
#[test]
fn buffers_stay_for_frames_that_are_held() {
    let mut rig = Rig::new(0);
    rig.sleep();
    rig.send(SIZE);
    rig.receive();
    assert_eq!((rig.batches[0].held.len(), rig.batches[0].aside.len()), (SIZE.into(), 0));
    rig.post(4);
    rig.end(0, true);
    rig.collect();
    assert_eq!((rig.arrived.len(), &rig.arrived), (4, &rig.expected));
    rig.post(4);
    rig.send(1);
    assert_eq!(rig.sent, u32::from(SIZE) + 1, "now they are lent");
}

#[test]
fn buffers_set_aside_come_back_after_loans_are_recalled() {
    let mut rig = Rig::new(0);
    rig.post(4);
    rig.send(2);
    rig.receive();
    rig.mapping.port.recall(&rig.mapping.guest);
    rig.end(0, true);
    rig.mapping.port.recall(&rig.mapping.guest);
    rig.mapping.guest.close();
    rig.collect();
    assert_eq!((rig.free.len(), rig.arrived.len(), rig.mapping.fault.take(|| {})), (SIZE.into(), 2, None));
}

#[test]
fn a_guest_whose_buffers_do_not_come_back_is_informed() {
    let mut rig = Rig::new(0);
    rig.post(4);
    rig.send(2);
    rig.receive();
    rig.mapping.port.recall(&rig.mapping.guest);
    rig.mapping.guest.close();
    let Some(Ending::Withheld(why)) = rig.mapping.fault.take(|| {}) else { panic!("it goes on without them") };
    assert!(why.contains("2 of its buffers"), "{why}");
}
