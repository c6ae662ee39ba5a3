//! Frames that are leased to another worker, and returned in any order.

mod support;

use packet::{BurstStorage, Lease, Segment};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::{TrySendError, sync_channel};
use support::guest::{Guest, SIZE, both};
use support::{Case, Driver, frame};
use virtqueue::NET_HEADER;
use virtqueue::device::{Dequeue, Lessor};

/// Length of every frame here.
const LEN: usize = 64;

fn bytes(segment: Segment<'_>) -> Vec<u8> {
    let mut bytes = vec![0; segment.len() as usize];
    segment.copy_to(&mut bytes);
    bytes
}

/// A guest that sends numbered frames, and the number of each that is under way.
struct Sender {
    driver: Driver,
    free: Vec<u16>,
    /// The area and the number of a frame, by the id of its chain.
    under_way: HashMap<u16, (u16, u32)>,
    next: u32,
}

impl Sender {
    fn new(packed: bool, size: u16) -> Sender {
        let driver = Driver::new(Case { packed, in_order: false, event_idx: false, mergeable: true, size });
        Sender { driver, free: (0..size).collect(), under_way: HashMap::new(), next: 0 }
    }

    fn dequeue(&self) -> Dequeue {
        let mut dequeue = self.driver.dequeue();
        dequeue.allow_keeping();
        dequeue
    }

    /// Sends as many frames as it has room for, at most `count`.
    fn send(&mut self, count: usize) {
        for _ in 0..count {
            let Some(area) = self.free.pop() else { break };
            self.driver.write(self.driver.area(area) + u64::from(NET_HEADER), &frame(self.next, LEN));
            let id = self.driver.add(area, &[LEN as u32 + NET_HEADER], false).expect("as many descriptors as areas");
            assert!(self.under_way.insert(id, (area, self.next)).is_none());
            self.next += 1;
        }
        self.driver.queue.publish();
    }

    /// Returns the numbers of the frames whose chains came back.
    fn collect(&mut self) -> Vec<u32> {
        let mut back = Vec::new();
        while let Some(used) = self.driver.queue.pop_used().unwrap() {
            let (area, number) = self.under_way.remove(&used.id).expect("a chain comes back once");
            // A lease that still reads these bytes would find them changed.
            self.driver.write(self.driver.area(area) + u64::from(NET_HEADER), &[0xee; LEN]);
            self.free.push(area);
            back.push(number);
        }
        back
    }
}

/// Receives a burst and leases the frames for which `leases` returns true.
fn receive(dequeue: &Dequeue, lessor: &Lessor, mut leases: impl FnMut() -> bool) -> Vec<Option<Lease>> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    dequeue.receive(&mut burst).unwrap();
    let frames = burst.frames();
    let lease = |frame| if leases() { lessor.lease(dequeue, &frames, frame) } else { None };
    let leased = frames.as_slice().iter().map(lease).collect();
    dequeue.recycle();
    leased
}

/// A receive worker and a processing worker on one queue. The first leases every frame to the second, over a bounded ring;
/// the second reads them and gives them back; the first returns them to the guest.
#[test]
fn two_workers_on_one_queue() {
    for packed in [false, true] {
        let total = if cfg!(miri) { 40 } else { 20_000 };
        let mut guest = Sender::new(packed, 16);
        let dequeue = guest.dequeue();
        let (lessor, lessee) = dequeue.open_leases().unwrap();
        let (there, here) = sync_channel::<Lease>(8);
        let processing = std::thread::spawn(move || {
            for number in 0..total {
                let lease = here.recv().unwrap();
                assert_eq!(bytes(lease.bytes()), frame(number, LEN), "in order, and as it was sent");
                lessee.give_back(lease).unwrap();
            }
            assert!(here.recv().is_err(), "there are no more");
        });
        let receiving = std::thread::spawn(move || {
            let mut waiting = VecDeque::new();
            let mut back = HashSet::new();
            while back.len() < total as usize {
                guest.send((total - guest.next) as usize);
                if waiting.is_empty() {
                    let leased = receive(&dequeue, &lessor, || true);
                    waiting.extend(leased.into_iter().map(|lease| lease.expect("it can be kept")));
                }
                while let Some(lease) = waiting.pop_front() {
                    match there.try_send(lease) {
                        Ok(()) => {}
                        Err(TrySendError::Full(lease)) => {
                            waiting.push_front(lease);
                            break;
                        }
                        Err(TrySendError::Disconnected(_)) => panic!("the processing worker has ended"),
                    }
                }
                if lessor.take_back(&dequeue) == 0 {
                    std::thread::yield_now();
                }
                dequeue.recycle();
                back.extend(guest.collect());
            }
            assert!(lessor.has_all() && dequeue.kept() == 0 && guest.under_way.is_empty());
        });
        receiving.join().unwrap();
        processing.join().unwrap();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    /// A burst, of which some frames are leased.
    Receive(Vec<bool>),
    /// The leases at these places are returned.
    GiveBack(Vec<u8>),
    TakeBack,
    Recycle,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1usize..20).prop_map(Step::Send),
        2 => prop::collection::vec(prop::bool::weighted(0.7), 32).prop_map(Step::Receive),
        2 => prop::collection::vec(any::<u8>(), 1..20).prop_map(Step::GiveBack),
        1 => Just(Step::TakeBack),
        1 => Just(Step::Recycle),
        2 => Just(Step::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..Default::default() })]

    /// In any order in which leases are returned, bytes stay as long as they are leased, and each chain comes back once.
    #[test]
    fn a_lease_stays_until_it_is_returned(
        packed in any::<bool>(),
        size in prop::sample::select(if cfg!(miri) { &[4u16][..] } else { &[4, 16, 64] }),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut guest = Sender::new(packed, size);
        let dequeue = guest.dequeue();
        let ways = [dequeue.open_leases().unwrap(), dequeue.open_leases().unwrap()];
        let mut out: Vec<(usize, u32, Lease)> = Vec::new();
        let (mut received, mut bursts, mut back) = (0, 0, Vec::new());
        for step in steps {
            match step {
                Step::Send(count) => guest.send(count),
                Step::Receive(places) => {
                    // Two workers take turns.
                    let way = bursts % ways.len();
                    bursts += 1;
                    let mut places = places.into_iter();
                    for lease in receive(&dequeue, &ways[way].0, || places.next().unwrap()) {
                        out.extend(lease.map(|lease| (way, received, lease)));
                        received += 1;
                    }
                }
                Step::GiveBack(places) => for place in places {
                    if !out.is_empty() {
                        let (way, _, lease) = out.swap_remove(usize::from(place) % out.len());
                        let lease = ways[1 - way].1.give_back(lease).expect_err("this is not its way back");
                        prop_assert!(ways[way].1.give_back(lease).is_ok());
                    }
                },
                Step::TakeBack => for (lessor, _) in &ways {
                    lessor.take_back(&dequeue);
                },
                Step::Recycle => dequeue.recycle(),
                Step::Collect => back.extend(guest.collect()),
            }
            for (_, number, lease) in &out {
                prop_assert_eq!(bytes(lease.bytes()), frame(*number, LEN));
                prop_assert!(!back.contains(number));
            }
            for (way, (lessor, _)) in ways.iter().enumerate() {
                prop_assert_eq!(lessor.out() as usize, out.iter().filter(|lease| lease.0 == way).count());
            }
        }
        for (way, _, lease) in out {
            prop_assert!(ways[way].1.give_back(lease).is_ok());
        }
        while dequeue.has_work() {
            received += receive(&dequeue, &ways[0].0, || false).len() as u32;
        }
        for (lessor, _) in &ways {
            prop_assert!(lessor.has_all());
            lessor.take_back(&dequeue);
        }
        dequeue.recycle();
        back.extend(guest.collect());
        back.sort_unstable();
        prop_assert_eq!((dequeue.kept(), received), (0, guest.next));
        prop_assert_eq!(back, (0..guest.next).collect::<Vec<_>>());
    }
}

#[test]
fn what_can_not_be_kept_is_not_leased() {
    both(|mut guest| {
        let [one, two] = [0, 1].map(|area| guest.area(area, LEN));
        let len = LEN as u32 + NET_HEADER;
        guest.offer(&[(one, len, 0)]);
        guest.offer(&[(two, 40, 0), (two + 40, len - 40, 0)]);
        let mut dequeue = guest.driver.dequeue();
        assert!(dequeue.open_leases().is_none(), "keeping is not allowed");
        dequeue.allow_keeping();
        let (lessor, lessee) = dequeue.open_leases().unwrap();
        let other = Sender::new(guest.packed, SIZE).dequeue();
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        dequeue.receive(&mut burst).unwrap();
        let frames = burst.frames();
        let [whole, pieces] = frames.as_slice() else { panic!() };
        assert!(lessor.lease(&dequeue, &frames, pieces).is_none(), "it has several buffers");
        assert!(lessor.lease(&other, &frames, whole).is_none(), "it is of another queue");
        let lease = lessor.lease(&dequeue, &frames, whole).unwrap();
        assert!(lessor.lease(&dequeue, &frames, whole).is_none(), "it is already leased");
        lessee.give_back(lease).unwrap();
        assert_eq!(lessor.take_back(&dequeue), 1);
        assert!(lessor.lease(&dequeue, &frames, whole).is_none(), "it is on its way to the guest");
        dequeue.recycle();
        assert!(lessor.lease(&dequeue, &frames, whole).is_none(), "its burst has ended");
        assert_eq!((dequeue.kept(), lessor.has_all()), (0, true));
    });
}

#[test]
fn a_frame_that_is_kept_is_not_leased() {
    both(|mut guest| {
        let area = guest.area(0, LEN);
        guest.offer(&[(area, LEN as u32 + NET_HEADER, 0)]);
        let mut dequeue = guest.driver.dequeue();
        dequeue.allow_keeping();
        let (lessor, _lessee) = dequeue.open_leases().unwrap();
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        dequeue.receive(&mut burst).unwrap();
        let frames = burst.frames();
        let sent = &frames.as_slice()[0];
        assert!(frames.keep(sent, dequeue.id()).is_some());
        assert!(lessor.lease(&dequeue, &frames, sent).is_none());
    });
}

/// A guest of a packed ring may offer several chains of one id: one at a time is leased.
#[test]
fn chains_of_one_id_are_leased_one_at_a_time() {
    let mut guest = Guest::new(true);
    let [one, two] = [0, 1].map(|area| guest.area(area, LEN));
    let len = LEN as u32 + NET_HEADER;
    guest.offer(&[(one, len, 0)]);
    let at = guest.driver.config.descriptors + 16;
    guest.descriptor(at, (two, len, 1 << 7), 0);
    let mut dequeue = guest.driver.dequeue();
    dequeue.allow_keeping();
    let (lessor, lessee) = dequeue.open_leases().unwrap();
    let mut leased = receive(&dequeue, &lessor, || true).into_iter();
    let (first, second) = (leased.next().unwrap().unwrap(), leased.next().unwrap());
    assert!(second.is_none() && leased.next().is_none());
    lessee.give_back(first).unwrap();
    assert_eq!((lessor.take_back(&dequeue), lessor.has_all()), (1, true));
}

/// The queue, its memory table and its lessor end while a frame is away: the bytes stay until it is returned, and after that
/// the memory goes.
#[test]
fn memory_stays_mapped_while_a_lease_is_out() {
    // Miri takes memory that stays mapped for a leak.
    for is_returned in if cfg!(miri) { &[true][..] } else { &[true, false] }.iter().copied() {
        let mut guest = Sender::new(false, 4);
        let memory = std::sync::Arc::downgrade(guest.driver.arena.memory());
        guest.send(1);
        let dequeue = guest.dequeue();
        let (lessor, lessee) = dequeue.open_leases().unwrap();
        let lease = receive(&dequeue, &lessor, || true).pop().unwrap().unwrap();
        assert!(!lessor.has_all());
        drop((lessor, dequeue, guest));
        assert_eq!(bytes(lease.bytes()), frame(0, LEN));
        if is_returned {
            lessee.give_back(lease).unwrap();
            drop(lessee);
        } else {
            drop(lessee);
            assert_eq!(bytes(lease.bytes()), frame(0, LEN), "it cannot be returned any more");
        }
        assert_eq!(memory.upgrade().is_none(), is_returned);
    }
}
