//! Every byte of guest memory that changes lies in a range that the log was told of: in rings and in buffers, written by
//! the device or by those to whom it lent buffers.

use crate::support::{Case, Driver, POSTED, SENT, frame, lend, take_filled};
use packet::{BurstStorage, MIN_FRAME, Segment};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use virtqueue::NET_HEADER;
use virtqueue::device::{Dequeue, Enqueue, Landing, Loan};
use virtqueue::memory::{Arena, DirtyLog};

const SIZE: u16 = 8;

/// Length of most posted buffers.
const ROOM: u32 = 2048;

/// A log that remembers all ranges.
#[derive(Clone, Default)]
struct Recorder(Rc<RefCell<Vec<Range<u64>>>>);

impl DirtyLog for Recorder {
    fn mark(&self, guest_addr: u64, len: u64) {
        self.0.borrow_mut().push(guest_addr..guest_addr + len);
    }
}

/// A guest whose memory is compared with the marks in the log.
struct Watched {
    driver: Driver,
    log: Recorder,
    /// The guest's areas that no descriptor points to.
    free: Vec<u16>,
    area_of: HashMap<u16, u16>,
}

impl Watched {
    fn new(case: Case) -> Watched {
        let driver = Driver::new(case);
        Watched { driver, log: Recorder::default(), free: (0..SIZE).collect(), area_of: HashMap::new() }
    }

    fn dequeue(&self) -> Dequeue<Recorder> {
        Dequeue::with_log(self.driver.arena.memory().clone(), &self.driver.config, self.log.clone()).unwrap()
    }

    fn enqueue(&self) -> Enqueue<Recorder> {
        Enqueue::with_log(self.driver.arena.memory().clone(), &self.driver.config, self.log.clone()).unwrap()
    }

    /// Makes a chain available, cut into these lengths, with a frame in it if the device may not write to it.
    fn offer(&mut self, number: u32, cuts: &[u32], writable: bool) {
        let Some(area) = self.free.pop() else { return };
        if !writable {
            let len = cuts.iter().sum::<u32>() - NET_HEADER;
            self.driver.write(self.driver.area(area) + u64::from(NET_HEADER), &frame(number, len as usize));
        }
        match self.driver.add(area, cuts, writable) {
            Some(id) => drop(self.area_of.insert(id, area)),
            None => self.free.push(area),
        }
        self.driver.queue.publish();
    }

    fn reclaim(&mut self) {
        while let Some(used) = self.driver.queue.pop_used().unwrap() {
            self.free.push(self.area_of.remove(&used.id).expect("came back once"));
        }
    }

    /// Returns all of the guest's memory that is in use.
    fn memory(&self) -> Vec<u8> {
        self.driver.read(Arena::BASE, (self.driver.area(SIZE) - Arena::BASE) as u32)
    }

    /// Runs a step of the device, and of those that it lent buffers to.
    fn device<T>(&self, step: impl FnOnce() -> T) -> T {
        self.log.0.borrow_mut().clear();
        let before = self.memory();
        let result = step();
        let after = self.memory();
        let mut marked = vec![false; after.len()];
        for range in self.log.0.borrow().iter() {
            marked[(range.start - Arena::BASE) as usize..(range.end - Arena::BASE) as usize].fill(true);
        }
        // Compared in pieces: Miri takes its time for single bytes.
        const PIECE: usize = 256;
        for (piece, (before, after)) in before.chunks(PIECE).zip(after.chunks(PIECE)).enumerate() {
            let changed = |at: &usize| before[*at] != after[*at];
            let unmarked = |at: &usize| !marked[piece * PIECE + at];
            if before != after
                && let Some(at) = (0..before.len()).filter(changed).find(unmarked)
            {
                panic!("the log was not told of the byte at {:#x}", Arena::BASE + (piece * PIECE + at) as u64);
            }
        }
        result
    }

    /// Writes into a loan, as a NIC does, `at` bytes from its start.
    fn fill(&self, loan: &Loan, at: u32, bytes: &[u8]) {
        let base = self.driver.arena.host(Arena::BASE, 1).unwrap().addr().get() as u64;
        let room = (loan.len() - at) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        self.driver.write(Arena::BASE + (loan.addr() - base) + u64::from(at), bytes);
    }
}

fn case() -> impl Strategy<Value = Case> {
    any::<[bool; 4]>().prop_map(|[packed, in_order, event_idx, mergeable]| Case {
        packed,
        in_order,
        event_idx,
        mergeable,
        size: SIZE,
    })
}

#[derive(Clone, Debug)]
enum Transmit {
    /// The guest offers a frame of this length, in two buffers if cut.
    Offer {
        len: u16,
        cut: bool,
    },
    /// The device takes a burst, and keeps the chains at these places.
    Receive {
        keep: u32,
    },
    /// Senders release some of the kept chains.
    Release(u8),
    SetKicks(bool),
    Reclaim,
}

fn transmit() -> impl Strategy<Value = Transmit> {
    prop_oneof![
        4 => (MIN_FRAME as u16..3000, prop::bool::weighted(0.3)).prop_map(|(len, cut)| Transmit::Offer { len, cut }),
        3 => any::<u32>().prop_map(|keep| Transmit::Receive { keep }),
        2 => (0u8..4).prop_map(Transmit::Release),
        1 => any::<bool>().prop_map(Transmit::SetKicks),
        2 => Just(Transmit::Reclaim),
    ]
}

#[derive(Clone, Debug)]
enum Receive {
    /// The guest posts buffers of this length, in two pieces if cut.
    Post {
        count: u8,
        room: u32,
        cut: bool,
    },
    /// Frames of another port are copied.
    Copy(Vec<u16>),
    /// Some buffers are lent.
    Lend(u8),
    /// Some loans come back filled, in one burst.
    Fill(Vec<Filling>),
    /// A loan comes back without a frame, after this many bytes were written to it.
    GiveBack(u16),
    SetKicks(bool),
    Reclaim,
}

/// A frame in a loan.
#[derive(Clone, Debug)]
struct Filling {
    len: u16,
    /// Bytes between the virtio header and the part of the frame in the loan.
    gap: u32,
    /// First bytes of the frame, which were written elsewhere.
    head: usize,
    /// Bytes cut from its front, as when a header is stripped.
    cut: u32,
    /// It goes to the guest, else it is dropped.
    delivered: bool,
}

fn filling() -> impl Strategy<Value = Filling> {
    let head = prop_oneof![2 => Just(0usize), 1 => 1usize..=16, 1 => Just(40)];
    (60u16..1500, prop_oneof![Just(0u32), 0u32..64], head, prop_oneof![Just(0u32), 1u32..30], any::<bool>())
        .prop_map(|(len, gap, head, cut, delivered)| Filling { len, gap, head, cut, delivered })
}

fn receive() -> impl Strategy<Value = Receive> {
    let room = prop_oneof![3 => Just(ROOM), 1 => Just(100u32), 1 => Just(5)];
    prop_oneof![
        4 => (1u8..8, room, prop::bool::weighted(0.2)).prop_map(|(count, room, cut)| Receive::Post { count, room, cut }),
        2 => prop::collection::vec(MIN_FRAME as u16..2500, 1..6).prop_map(Receive::Copy),
        3 => (1u8..8).prop_map(Receive::Lend),
        4 => prop::collection::vec(filling(), 1..8).prop_map(Receive::Fill),
        1 => (0u16..3000).prop_map(Receive::GiveBack),
        1 => any::<bool>().prop_map(Receive::SetKicks),
        2 => Just(Receive::Reclaim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 300 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_log_hears_of_every_change_that_a_transmit_queue_makes(
        case in case(),
        keeping in any::<bool>(),
        steps in prop::collection::vec(transmit(), 1..if cfg!(miri) { 10 } else { 60 }),
    ) {
        let mut guest = Watched::new(case);
        let mut dequeue = guest.dequeue();
        if keeping {
            dequeue.allow_keeping();
        }
        let mut storage = Box::<BurstStorage>::default();
        let mut kept = Vec::new();
        for (number, step) in (0..).zip(steps) {
            match step {
                Transmit::Offer { len, cut } => {
                    let len = u32::from(len) + NET_HEADER;
                    guest.offer(number, &if cut { vec![20, len - 20] } else { vec![len] }, SENT);
                }
                Transmit::Receive { keep } => guest.device(|| {
                    let mut burst = storage.start();
                    dequeue.receive(&mut burst).unwrap();
                    let frames = burst.frames();
                    let wanted = frames.as_slice().iter().enumerate().filter(|(place, _)| keep >> place & 1 == 1);
                    kept.extend(wanted.filter_map(|(_, frame)| frames.keep(frame, dequeue.id())));
                    dequeue.keep(burst.kept());
                    dequeue.recycle();
                }),
                Transmit::Release(count) => guest.device(|| {
                    let count = kept.len().min(count.into());
                    dequeue.release(kept.drain(..count));
                    dequeue.recycle();
                }),
                Transmit::SetKicks(wanted) => guest.device(|| dequeue.set_kicks(wanted)),
                Transmit::Reclaim => guest.reclaim(),
            }
        }
    }

    #[test]
    fn the_log_hears_of_every_change_that_a_receive_queue_makes(
        case in case(),
        steps in prop::collection::vec(receive(), 1..if cfg!(miri) { 10 } else { 60 }),
    ) {
        let mut guest = Watched::new(case);
        let enqueue = guest.enqueue();
        let mut storage = Box::<BurstStorage>::default();
        let mut loans = Vec::new();
        for (number, step) in (0..).zip(steps) {
            match step {
                Receive::Post { count, room, cut } => {
                    for _ in 0..count {
                        guest.offer(number, &if cut { vec![3, room - 3] } else { vec![room] }, POSTED);
                    }
                }
                Receive::Copy(lengths) => guest.device(|| {
                    let frames: Vec<_> = lengths.iter().map(|&len| frame(number, len.into())).collect();
                    let mut burst = storage.start();
                    frames.iter().for_each(|bytes| burst.push(Segment::from(&bytes[..])));
                    enqueue.transmit(burst.frames()).unwrap();
                }),
                // Loans come back in any order.
                Receive::Lend(_) if case.in_order => {}
                Receive::Lend(count) => guest.device(|| {
                    let lent = std::iter::from_fn(|| lend(&enqueue, ROOM, 0).unwrap());
                    loans.extend(lent.take(count.into()));
                }),
                // Each call is a step: a range that an earlier one marked has to be marked again when it changes again.
                Receive::Fill(fillings) => {
                    let head = frame(number, 64);
                    let mut burst = storage.start();
                    let mut parts = Vec::new();
                    guest.device(|| {
                        for filling in &fillings {
                            let Some(loan) = loans.pop() else { break };
                            let (at, len) = (NET_HEADER + filling.gap, u32::from(filling.len));
                            // The filler may leave anything in front of the frame and behind it.
                            guest.fill(&loan, 0, &[number as u8; 40]);
                            guest.fill(&loan, at, &frame(number, filling.len.into()));
                            guest.fill(&loan, at + len, &[!number as u8; 40]);
                            let elsewhere = (filling.head > 0).then(|| Segment::from(&head[..filling.head]));
                            let landing = Landing { head: elsewhere, at, len, has_header: false };
                            assert!(take_filled(&enqueue, loan, landing, &mut burst).is_none());
                            parts.push((filling.cut, len + filling.head as u32));
                        }
                    });
                    let mut parts = parts.into_iter();
                    burst.trim(|_, _| parts.next());
                    let frames = burst.frames();
                    let delivered = frames.as_slice().iter().zip(&fillings).filter(|(_, filling)| filling.delivered);
                    let delivered: Vec<_> = delivered.map(|(frame, _)| *frame).collect();
                    guest.device(|| enqueue.transmit(frames.select(&delivered)).unwrap());
                    guest.device(|| enqueue.settle(|loan| loans.push(loan)));
                }
                Receive::GiveBack(written) => guest.device(|| {
                    let Some(loan) = loans.pop() else { return };
                    guest.fill(&loan, 0, &vec![number as u8; written.into()]);
                    enqueue.give_back(loan);
                }),
                Receive::SetKicks(wanted) => guest.device(|| enqueue.set_kicks(wanted)),
                Receive::Reclaim => guest.reclaim(),
            }
        }
        guest.device(|| {
            loans.drain(..).for_each(|loan| enqueue.give_back(loan));
            enqueue.close();
        });
    }
}
