//! Filled loans that are set aside while others process their frames, and taken up again to be delivered.

use crate::support::posting::{Guest, case};
use crate::support::{frame, lend, take_filled};
use packet::{BurstStorage, Frame, Frames, LeasedFrames, MIN_FRAME, MappedMemory, Segment};
use proptest::prelude::*;
use std::sync::Arc;
use virtqueue::device::{Aside, Enqueue, Landing, Loan};

const ROOM: u32 = 2048;

/// Fate of a frame.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It goes to the guest as it came.
    Goes,
    /// It goes to the guest with these bytes instead of this number of bytes behind its addresses, as when VLAN tags change.
    Changed { put: usize, cut: u32 },
    /// It goes elsewhere, or nowhere.
    Leaves,
}

#[derive(Clone, Debug)]
enum Step {
    Post(u8),
    Lend(u8),
    /// This number of loans come back filled, and are delivered at once or set aside.
    Burst {
        loans: u8,
        len: u16,
        fates: Option<Vec<Fate>>,
    },
    /// One of the bursts that are set aside is taken up.
    TakeUp(prop::sample::Index, Vec<Fate>),
    /// A frame of another port is copied.
    Copy(u16),
    Collect,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        3 => Just(Fate::Goes),
        2 => (0usize..5, 0u32..8).prop_map(|(put, cut)| Fate::Changed { put, cut }),
        1 => Just(Fate::Leaves),
    ];
    prop::collection::vec(fate, packet::MAX_BURST)
}

fn step() -> impl Strategy<Value = Step> {
    let len = 40..1500u16;
    prop_oneof![
        3 => (1u8..40).prop_map(Step::Post),
        3 => (1u8..40).prop_map(Step::Lend),
        4 => (1u8..=packet::MAX_BURST as u8, len.clone(), prop::option::weighted(0.2, fates()))
            .prop_map(|(loans, len, fates)| Step::Burst { loans, len, fates }),
        3 => (any::<prop::sample::Index>(), fates()).prop_map(|(burst, fates)| Step::TakeUp(burst, fates)),
        1 => len.prop_map(Step::Copy),
        2 => Just(Step::Collect),
    ]
}

/// A burst whose loans are set aside.
struct Waiting {
    frames: LeasedFrames,
    aside: Aside,
    bytes: Vec<Vec<u8>>,
}

/// Delivers frames as `fates` say, in one call. Returns the frames that the guest must get.
fn deliver(enqueue: &Enqueue, frames: Frames<'_>, bytes: &[Vec<u8>], fates: &[Fate]) -> Vec<Vec<u8>> {
    const PUT: [u8; 4] = [0xaa; 4];
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    let mut expected = Vec::new();
    for ((frame, bytes), fate) in frames.as_slice().iter().zip(bytes).zip(fates) {
        match *fate {
            Fate::Goes => {
                assert!(burst.push_frame(&frames, frame));
                expected.push(bytes.clone());
            }
            Fate::Changed { put, cut } => {
                let (addresses, rest) = frame.first().split_at(12);
                let rest = rest.split_at(cut).1;
                let parts = [addresses, Segment::from(&PUT[..put]), rest];
                assert!(burst.push_segments(parts.into_iter().filter(|part| !part.is_empty())));
                expected.push([&bytes[..12], &PUT[..put], &bytes[12 + cut as usize..]].concat());
            }
            Fate::Leaves => {}
        }
    }
    let done = enqueue.transmit(burst.frames()).unwrap();
    assert_eq!(done.frames as usize, expected.len());
    expected
}

fn copy(frames: &Frames<'_>, frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len() as usize];
    frames.copy_to(frame, &mut bytes);
    bytes
}

/// Checks that the frames of a burst that is set aside are as they were.
fn check(waiting: &Waiting) {
    let frames = waiting
        .frames
        .groups()
        .flat_map(|group| group.as_slice().iter().map(move |frame| copy(&group, frame)).collect::<Vec<_>>());
    assert!(frames.eq(waiting.bytes.iter().cloned()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 300 }, failure_persistence: None, ..Default::default() })]

    /// Bursts are set aside and taken up in any order: their frames stay as they are meanwhile, arrive once and in place, and
    /// every buffer comes back.
    #[test]
    fn frames_arrive_in_place_when_their_burst_is_taken_up(
        packed: bool,
        size in prop::sample::select(if cfg!(miri) { &[4u16][..] } else { &[4, 64, 256] }),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 10 } else { 60 }),
    ) {
        let mut guest = Guest::new(case(packed, size));
        let memories: Arc<[Arc<dyn MappedMemory>]> = Arc::new([guest.driver.arena.memory().clone() as Arc<dyn MappedMemory>]);
        let mut loans: Vec<Loan> = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        let mut number = 0;
        let mut storage = Box::<BurstStorage>::default();
        for step in steps {
            match step {
                Step::Post(count) => guest.post(count.into(), ROOM),
                Step::Lend(count) => {
                    for _ in 0..count {
                        loans.extend(lend(&guest.enqueue, ROOM, 0).unwrap());
                    }
                }
                Step::Burst { loans: count, len, fates } => {
                    let from = loans.len().saturating_sub(count.into());
                    let mut bytes = Vec::new();
                    let mut burst = storage.start();
                    for loan in loans.drain(from..) {
                        number += 1;
                        bytes.push(frame(number, len.into()));
                        guest.fill(&loan, &bytes[bytes.len() - 1]);
                        let landing = Landing::whole(len.into());
                        prop_assert!(take_filled(&guest.enqueue, loan, landing, &mut burst).is_none());
                    }
                    match fates {
                        Some(fates) => expected.extend(deliver(&guest.enqueue, burst.frames(), &bytes, &fates)),
                        None => {
                            let mut frames = LeasedFrames::new(memories.clone());
                            frames.add(burst.frames());
                            let mut aside = Aside::default();
                            prop_assert!(guest.enqueue.set_aside(&mut aside));
                            prop_assert_eq!(aside.len(), bytes.len());
                            waiting.push(Waiting { frames, aside, bytes });
                        }
                    }
                    guest.enqueue.settle(|loan| loans.push(loan));
                }
                Step::TakeUp(_, _) if waiting.is_empty() => {}
                Step::TakeUp(at, fates) => {
                    let mut burst = waiting.swap_remove(at.index(waiting.len()));
                    check(&burst);
                    prop_assert!(guest.enqueue.take_up(&mut burst.aside));
                    prop_assert!(burst.aside.is_empty());
                    let before = guest.enqueue.posted();
                    if let Some(group) = burst.frames.groups().next() {
                        expected.extend(deliver(&guest.enqueue, group, &burst.bytes, &fates));
                        check(&burst);
                    }
                    prop_assert_eq!(guest.enqueue.posted(), before, "no other buffer was needed");
                    guest.enqueue.settle(|loan| loans.push(loan));
                }
                Step::Copy(len) => {
                    number += 1;
                    let bytes = frame(number, len.into());
                    let mut burst = storage.start();
                    burst.push(Segment::from(&bytes[..]));
                    if guest.enqueue.transmit(burst.frames()).unwrap().frames == 1 {
                        expected.push(bytes.clone());
                    }
                }
                Step::Collect => guest.collect(),
            }
            prop_assert_eq!(guest.enqueue.aside(), waiting.iter().map(|burst| burst.aside.len()).sum::<usize>());
        }
        for mut burst in waiting {
            check(&burst);
            prop_assert!(guest.enqueue.take_up(&mut burst.aside));
            guest.enqueue.settle(|loan| loans.push(loan));
        }
        loans.drain(..).for_each(|loan| guest.enqueue.give_back(loan));
        guest.enqueue.close();
        guest.collect();
        prop_assert_eq!(&guest.received, &expected, "in order, as they were delivered");
        prop_assert_eq!(guest.enqueue.aside(), 0);
        // A successor resumes where the used ring ends, and finds the posted and unused buffers.
        let mut config = guest.driver.config;
        config.base = guest.enqueue.base();
        let successor = Enqueue::new(guest.driver.arena.memory().clone(), &config).unwrap();
        let left = std::iter::from_fn(|| lend(&successor, ROOM, 0).unwrap()).count();
        prop_assert_eq!(left, guest.area_of.len());
    }
}

/// A guest, and a burst of two of its loans that is set aside.
fn two_aside(packed: bool) -> (Guest, Aside) {
    let mut guest = Guest::new(case(packed, 8));
    guest.post(8, ROOM);
    let mut aside = Aside::default();
    receive(&guest, 2);
    assert!(guest.enqueue.set_aside(&mut aside));
    guest.enqueue.settle(|_| panic!("they are aside"));
    (guest, aside)
}

/// Makes this number of loans come back filled.
fn receive(guest: &Guest, loans: u32) {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for number in 0..loans {
        let loan = lend(&guest.enqueue, ROOM, 0).unwrap().unwrap();
        guest.fill(&loan, &frame(number, 60));
        assert!(take_filled(&guest.enqueue, loan, Landing::whole(60), &mut burst).is_none());
    }
}

#[test]
fn another_queue_and_a_burst_that_has_not_ended_take_nothing_up() {
    for packed in [false, true] {
        let (guest, mut aside) = two_aside(packed);
        let (other, mut others) = two_aside(packed);
        assert!(!other.enqueue.take_up(&mut aside) && !guest.enqueue.take_up(&mut others));
        receive(&guest, 1);
        assert!(!guest.enqueue.take_up(&mut aside), "another burst is present");
        assert!(!guest.enqueue.set_aside(&mut aside), "there are others");
        let mut back = 0;
        guest.enqueue.settle(|_| back += 1);
        assert_eq!((back, aside.len(), guest.enqueue.aside()), (1, 2, 2));
        assert!(guest.enqueue.take_up(&mut aside));
        guest.enqueue.settle(|_| back += 1);
        assert_eq!((back, aside.len(), guest.enqueue.aside()), (3, 0, 0));
        assert!(guest.enqueue.take_up(&mut aside), "there are none");
        // Where buffers of a queue that is gone are, others have room.
        receive(&guest, 3);
        assert!(guest.enqueue.set_aside(&mut others) && guest.enqueue.take_up(&mut others));
        guest.enqueue.settle(|_| back += 1);
        assert_eq!(back, 6);
    }
}

/// A frame that was delivered and has yet to be moved in its buffer: the guest must not see the buffer before.
#[test]
fn a_burst_that_was_partly_delivered_ends_first() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        guest.post(2, ROOM);
        let bytes = frame(7, 100);
        let mut aside = Aside::default();
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for _ in 0..2 {
            let loan = lend(&guest.enqueue, ROOM, 0).unwrap().unwrap();
            guest.fill(&loan, &bytes);
            assert!(take_filled(&guest.enqueue, loan, Landing::whole(100), &mut burst).is_none());
        }
        let frames = burst.frames();
        let changed = Fate::Changed { put: 4, cut: 0 };
        let expected = deliver(&guest.enqueue, frames, &[bytes.clone(), bytes], &[changed, Fate::Leaves]);
        assert!(!guest.enqueue.set_aside(&mut aside));
        let mut back = 0;
        guest.enqueue.settle(|_| back += 1);
        guest.collect();
        assert_eq!((&guest.received, back, aside.len()), (&expected, 1, 0));
        assert!(guest.received[0].len() > MIN_FRAME as usize);
    }
}
