//! Buffers that are lent, filled by somebody else, and delivered in place, copied from, or given back.

mod support;

use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use support::{Case, Driver, frame};
use virtqueue::device::{Enqueue, Loan};
use virtqueue::{Burst, BurstStorage, MIN_FRAME, NET_HEADER, Segment};

const ROOM: u32 = 2048;

fn case(packed: bool, size: u16) -> Case {
    Case { packed, in_order: false, event_idx: false, mergeable: true, size }
}

/// A guest that posts buffers, and what it expects to find in them.
struct Guest {
    driver: Driver,
    enqueue: Enqueue,
    area_of: HashMap<u16, u16>,
    free: VecDeque<u16>,
    received: Vec<Vec<u8>>,
    empty: usize,
}

impl Guest {
    fn new(case: Case) -> Guest {
        let driver = Driver::new(case);
        let enqueue = driver.enqueue();
        let free = (0..case.size).collect();
        Guest { driver, enqueue, area_of: HashMap::new(), free, received: vec![], empty: 0 }
    }

    fn post(&mut self, count: usize, room: u32) {
        for _ in 0..count {
            let Some(area) = self.free.pop_front() else { break };
            let id = self.driver.add(area, &[room], true).expect("as many descriptors as areas");
            self.area_of.insert(id, area);
        }
        self.driver.queue.publish();
    }

    fn collect(&mut self) {
        while let Some(used) = self.driver.queue.pop_used().unwrap() {
            let area = self.area_of.remove(&used.id).expect("came back once");
            self.free.push_back(area);
            if used.len == 0 {
                self.empty += 1;
                continue;
            }
            let bytes = self.driver.read(self.driver.area(area), used.len);
            assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "a whole frame without offloads");
            self.received.push(bytes[12..].to_vec());
        }
    }

    /// Writes a frame into a loan, as a NIC does, from outside.
    fn fill(&self, loan: &Loan, bytes: &[u8]) {
        assert!(loan.len() as usize >= bytes.len() + NET_HEADER as usize);
        let base = self.driver.arena.host(virtqueue::memory::Arena::BASE, 1).unwrap().as_ptr().addr() as u64;
        let addr = virtqueue::memory::Arena::BASE + (loan.addr() - base);
        // Whoever fills it may leave anything in the header.
        self.driver.write(addr, &[0xee; NET_HEADER as usize]);
        self.driver.write(addr + u64::from(NET_HEADER), bytes);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(u8),
    Lend(u8),
    /// Some loans come back filled, in an order of their own: those at `places`. By `kinds` a frame is the guest's, or
    /// somebody else's.
    Burst {
        places: Vec<u8>,
        kinds: Vec<bool>,
        len: u16,
    },
    /// A frame from elsewhere is copied.
    Copy(u16),
    GiveBack(u8),
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let len = MIN_FRAME as u16..1500;
    prop_oneof![
        2 => (1u8..20).prop_map(Step::Post),
        3 => (1u8..20).prop_map(Step::Lend),
        4 => (prop::collection::vec(any::<u8>(), 1..32), prop::collection::vec(any::<bool>(), 32), len.clone())
            .prop_map(|(places, kinds, len)| Step::Burst { places, kinds, len }),
        1 => len.prop_map(Step::Copy),
        1 => any::<u8>().prop_map(Step::GiveBack),
        2 => Just(Step::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_frame_arrives_once_and_every_buffer_comes_back(
        packed in any::<bool>(),
        size in prop::sample::select(if cfg!(miri) { &[4u16][..] } else { &[4, 16, 256] }),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut guest = Guest::new(case(packed, size));
        let mut storage = Box::<BurstStorage>::default();
        let mut loans: Vec<Loan> = Vec::new();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Post(count) => guest.post(count.into(), ROOM),
                Step::Lend(count) => {
                    for _ in 0..count {
                        loans.extend(guest.enqueue.lend(ROOM, 0).unwrap());
                    }
                }
                Step::Burst { places, kinds, len } => {
                    let filled: Vec<Loan> = places.iter().map_while(|&place| {
                        (!loans.is_empty()).then(|| loans.swap_remove(usize::from(place) % loans.len()))
                    }).collect();
                    let mut burst = storage.start();
                    let mut bytes = Vec::new();
                    for loan in filled {
                        number += 1;
                        bytes.push(frame(number, len.into()));
                        guest.fill(&loan, &bytes[bytes.len() - 1]);
                        prop_assert!(guest.enqueue.take_filled(loan, len.into(), &mut burst).is_none());
                    }
                    let frames = burst.frames();
                    let mine: Vec<_> = frames.as_slice().iter().zip(&kinds).filter(|f| *f.1).map(|f| *f.0).collect();
                    let done = guest.enqueue.transmit(frames.select(&mine)).unwrap();
                    prop_assert_eq!(done.frames as usize, mine.len());
                    expected.extend(bytes.iter().zip(&kinds).filter(|f| *f.1).map(|f| f.0.clone()));
                    // Nothing is the guest's before others have copied theirs.
                    for (frame, bytes) in frames.as_slice().iter().zip(&bytes) {
                        let mut copy = vec![0; bytes.len()];
                        prop_assert_eq!(frames.copy_to(frame, &mut copy), bytes.len());
                        prop_assert_eq!(&copy, bytes);
                    }
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
                Step::GiveBack(place) => {
                    if !loans.is_empty() {
                        guest.enqueue.give_back(loans.swap_remove(usize::from(place) % loans.len()));
                    }
                }
                Step::Collect => guest.collect(),
            }
        }
        let had_lent = number > 0 || !loans.is_empty();
        loans.drain(..).for_each(|loan| guest.enqueue.give_back(loan));
        guest.enqueue.close();
        guest.collect();
        prop_assert_eq!(&guest.received, &expected, "in order, as they were delivered");
        // A successor goes on where the used ring ends, and finds what was posted and not used.
        let mut config = guest.driver.config;
        config.base = guest.enqueue.base();
        let successor = Enqueue::new(guest.driver.arena.memory().clone(), &config).unwrap();
        let mut left = 0;
        while successor.lend(ROOM, 0).unwrap().is_some() {
            left += 1;
        }
        prop_assert_eq!(left, guest.area_of.len(), "had lent: {}", had_lent);
    }
}

/// Adds the frame in `loan` to `burst`; false if it can't be there.
fn taken<'q>(guest: &'q Guest, loan: Loan, len: u32, burst: &mut Burst<'_, 'q>) -> bool {
    guest.enqueue.take_filled(loan, len, burst).is_none()
}

#[test]
fn what_can_not_be_in_a_buffer_is_refused() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        guest.post(8, 100);
        let other = Guest::new(case(packed, 8));
        let mut storage = Box::<BurstStorage>::default();
        for len in [0, MIN_FRAME - 1, 100 - NET_HEADER + 1, u32::MAX] {
            let loan = guest.enqueue.lend(100, 0).unwrap().unwrap();
            assert!(!taken(&guest, loan, len, &mut storage.start()), "{len}");
        }
        let loan = guest.enqueue.lend(100, 0).unwrap().unwrap();
        assert!(!taken(&other, loan, 60, &mut storage.start()), "lent by another queue");
        let loan = guest.enqueue.lend(100, 0).unwrap().unwrap();
        other.enqueue.give_back(loan);
        assert!(other.enqueue.lend(1, 0).unwrap().is_none(), "it is none of its own");
    }
}

#[test]
fn buffers_that_are_too_short_or_needed_elsewhere_stay() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        guest.post(4, 1000);
        assert!(guest.enqueue.lend(1001, 0).unwrap().is_none());
        assert_eq!(guest.enqueue.unfit(1001, 0), Some(1000));
        assert!(guest.enqueue.lend(1000, 4).unwrap().is_none());
        assert_eq!((guest.enqueue.unfit(1000, 4), guest.enqueue.unfit(1000, 0)), (None, None));
        assert!(guest.enqueue.lend(1000, 3).unwrap().is_some());
        assert!(guest.enqueue.lend(1000, 3).unwrap().is_none());
        guest.driver.add(7, &[500, 500], true).unwrap();
        guest.driver.queue.publish();
        let lent = std::iter::from_fn(|| guest.enqueue.lend(500, 0).unwrap()).count();
        assert_eq!(lent, 3, "a buffer in pieces is not lent");
        assert_eq!(guest.enqueue.unfit(500, 0), Some(500), "it is the pieces");
    }
}

/// Whoever posts a buffer twice finds one frame where the other was; each chain comes back once all the same.
#[test]
fn the_same_buffer_twice() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        for _ in 0..2 {
            guest.driver.add(0, &[ROOM], true).unwrap();
        }
        guest.driver.queue.publish();
        let loans = [(); 2].map(|()| guest.enqueue.lend(ROOM, 0).unwrap().unwrap());
        assert_eq!(loans[0].addr(), loans[1].addr());
        loans.iter().enumerate().for_each(|(i, loan)| guest.fill(loan, &frame(i as u32, 60 + i)));
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for (i, loan) in loans.into_iter().enumerate() {
            assert!(taken(&guest, loan, 60 + i as u32, &mut burst));
        }
        assert_eq!(guest.enqueue.transmit(burst.frames()).unwrap().frames, 2);
        guest.enqueue.settle(|_| panic!("both were delivered"));
        let mut used = Vec::new();
        while let Some(back) = guest.driver.queue.pop_used().unwrap() {
            used.push((back.id, back.len));
        }
        used.sort();
        assert_eq!(used.iter().map(|u| u.1).collect::<Vec<_>>(), [60 + NET_HEADER, 61 + NET_HEADER]);
        assert!(used[0].0 != used[1].0);
    }
}

/// The largest ring there is, all of it on loan at once, comes back, and is lent and returned again.
#[test]
#[cfg_attr(miri, ignore = "too many buffers")]
fn all_of_the_largest_ring() {
    for packed in [false, true] {
        let size = virtqueue::MAX_QUEUE_SIZE;
        let mut guest = Guest::new(case(packed, size));
        guest.post(size.into(), ROOM);
        for _ in 0..2 {
            let loans: Vec<Loan> = std::iter::from_fn(|| guest.enqueue.lend(ROOM, 0).unwrap()).collect();
            let addresses: std::collections::HashSet<u64> = loans.iter().map(Loan::addr).collect();
            assert_eq!((loans.len(), addresses.len()), (size.into(), size.into()));
            loans.into_iter().for_each(|loan| guest.enqueue.give_back(loan));
        }
        guest.enqueue.close();
        guest.collect();
        assert_eq!(guest.empty, size.into());
    }
}
