//! Tests of parents and lanes, with a device in memory.

use super::lane::Claimed;
use super::*;
use crate::drops::{Drops, Reason};
use crate::port::{HoldBursts, RxQueue, Wait};
use packet::{Burst, BurstStorage, FrameBlock, Frames};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Buffers of the device.
const BUFFERS: usize = 1024;

/// Cycles after which a worker counts as stalled; tests pass the count themselves.
const STALLED: u64 = 1_000;

/// A device that brings frames with rising numbers, one for each free buffer. It checks that no buffer is used twice.
struct Device {
    /// Frames by number; buffers hold none, as the frames never change.
    block: Arc<FrameBlock>,
    next: Cell<usize>,
    /// Buffers that the device has, and those of the present burst.
    free: RefCell<Vec<u16>>,
    taken: RefCell<Vec<u16>>,
    /// Buffers that were given back and not recycled.
    returned: RefCell<Vec<u16>>,
    /// Maximum number of frames in a burst.
    most: usize,
}

impl Device {
    fn new(frames: usize) -> Device {
        let frames = (0..frames).map(|number| {
            let mut bytes = vec![0; 64];
            bytes[14..22].copy_from_slice(&(number as u64).to_be_bytes());
            bytes
        });
        let block = Arc::new(frames.collect::<FrameBlock>());
        let free = RefCell::new((0..BUFFERS as u16).collect());
        Device {
            block,
            next: Cell::new(0),
            free,
            taken: RefCell::default(),
            returned: RefCell::default(),
            most: MAX_BURST,
        }
    }
}

impl RxQueue for Device {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let (mut free, mut taken) = (self.free.borrow_mut(), self.taken.borrow_mut());
        assert!(taken.is_empty(), "the last burst was neither held nor recycled");
        while burst.room() > 0
            && taken.len() < self.most
            && self.next.get() < self.block.len()
            && let Some(buffer) = free.pop()
        {
            taken.push(buffer);
            burst.push(self.block.frame(self.next.get()));
            self.next.set(self.next.get() + 1);
        }
        !taken.is_empty()
    }

    fn recycle(&self) {
        let mut free = self.free.borrow_mut();
        free.append(&mut self.taken.borrow_mut());
        free.append(&mut self.returned.borrow_mut());
        let mut seen = vec![false; BUFFERS];
        free.iter()
            .for_each(|&id| assert!(!std::mem::replace(&mut seen[usize::from(id)], true), "{id} came back twice"));
    }

    fn arm(&self) -> Wait {
        Wait::Event
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

impl HoldBursts for Device {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        vec![self.block.clone()]
    }

    fn buffers(&self) -> usize {
        BUFFERS
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.append(&mut self.taken.borrow_mut());
    }

    fn give_back(&self, held: &[u16]) {
        self.returned.borrow_mut().extend(held);
    }
}

fn number(frames: &Frames<'_>, frame: &packet::Frame<'_>) -> u64 {
    let mut bytes = [0; 22];
    assert_eq!(frames.copy_to(frame, &mut bytes), 22);
    u64::from_be_bytes(bytes[14..].try_into().expect("eight bytes"))
}

fn alarms(lanes: usize) -> Vec<Arc<Alarm>> {
    let wake = || Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"));
    (0..lanes).map(|_| Arc::new(Alarm::new(wake()))).collect()
}

/// A shared queue, and what its parent has sent.
struct Rig {
    parent: Parent,
    drops: Arc<Drops>,
    storage: Box<BurstStorage>,
    sent: Vec<u64>,
    now: u64,
}

impl Rig {
    fn new(frames: usize, lanes: usize) -> (Rig, Vec<Lane>) {
        let drops = Arc::<Drops>::default();
        let terms = Terms { outputs: 1, stalled_after: STALLED, drops: drops.clone(), alarms: alarms(lanes) };
        let Ok((parent, lanes)) = assign(Box::new(Device::new(frames)), terms) else { panic!("frames can be held") };
        (Rig { parent, drops, storage: Box::default(), sent: Vec::new(), now: 0 }, lanes)
    }

    fn release(&mut self) -> usize {
        let sent = &mut self.sent;
        let mut send = |output: usize, frames: Frames<'_>| {
            assert_eq!(output, 0);
            sent.extend(frames.as_slice().iter().map(|frame| number(&frames, frame)));
        };
        self.parent.release(self.now, None, &mut send).batches
    }

    fn round(&mut self) -> bool {
        let released = self.release();
        released + self.parent.receive(None, &mut self.storage) > 0
    }

    fn dropped(&self, reason: Reason) -> u64 {
        self.drops.named().get(crate::drops::REASONS[reason as usize].0).copied().unwrap_or(0)
    }

    /// Makes rounds until the parent has found a worker that stalled.
    fn look(&mut self) {
        for _ in 0..200 {
            self.round();
        }
        self.now += STALLED + 1;
        for _ in 0..200 {
            self.round();
        }
    }
}

/// Claims a batch, and hands all of its frames over. Returns their number.
fn hand_over(lane: &mut Lane) -> Option<usize> {
    let mut claimed = lane.claim(&mut BurstStorage::default())?;
    let (frames, handed) = claimed.frames();
    let count = frames.len();
    frames.groups().for_each(|group| handed[0].add(group));
    claimed.complete(None, packet::MAX_BURST);
    Some(count)
}

#[test]
fn what_lanes_hand_over_leaves_in_the_order_in_which_it_came() {
    let (mut rig, mut lanes) = Rig::new(20_000, 3);
    let mut turn = 0;
    while rig.sent.len() < 20_000 {
        rig.round();
        // The last lane claims first, and completes last.
        let mut storage = BurstStorage::default();
        let (last, others) = lanes.split_last_mut().expect("three lanes");
        let held = last.claim(&mut storage);
        turn += 1;
        for lane in others.iter_mut().take(turn % 3) {
            hand_over(lane);
        }
        if let Some(mut claimed) = held {
            let (frames, handed) = claimed.frames();
            frames.groups().for_each(|group| handed[0].add(group));
            claimed.complete(None, packet::MAX_BURST);
        }
    }
    assert!(rig.sent.iter().copied().eq(0..20_000));
    assert!(rig.parent.rest());
}

#[test]
fn a_parent_that_rests_gets_all_frames_back_and_receives_no_more() {
    let (mut rig, mut lanes) = Rig::new(20_000, 2);
    rig.round();
    assert!(!rig.parent.rest(), "batches are out");
    let published = std::iter::from_fn(|| hand_over(&mut lanes[0])).sum::<usize>();
    assert!(published > 0 && published < 20_000);
    rig.round();
    assert!(rig.parent.rest());
    assert!(rig.sent.iter().copied().eq(0..published as u64));
    assert!(!rig.round(), "it receives no more");
}

#[test]
fn the_others_go_on_without_a_worker_that_stalls() {
    let (mut rig, mut lanes) = Rig::new(20_000, 2);
    rig.round();
    let (first, second) = lanes.split_at_mut(1);
    let mut storage = BurstStorage::default();
    let mut stalled = first[0].claim(&mut storage).expect("a batch is published");
    let count = stalled.frames().0.len() as u64;
    while hand_over(&mut second[0]).is_some() {}
    rig.round();
    assert!(rig.sent.is_empty(), "the batch at the front is not back");
    rig.look();
    assert_eq!(rig.sent.first(), Some(&count), "the frames behind it leave");
    while rig.sent.len() as u64 + count < 20_000 {
        while hand_over(&mut second[0]).is_some() {}
        rig.round();
    }
    assert!(!rig.parent.rest() && rig.dropped(Reason::WorkerStalled) == 0);
    // It goes on at last.
    let (frames, handed) = stalled.frames();
    frames.groups().for_each(|group| handed[0].add(group));
    stalled.complete(None, packet::MAX_BURST);
    rig.round();
    assert_eq!((rig.dropped(Reason::WorkerStalled), rig.sent.len() as u64 + count), (count, 20_000));
    assert!(rig.parent.rest(), "its buffers came back");
}

/// The parent is on no plan any more when the last batch comes back.
#[test]
fn what_comes_back_to_a_parent_that_was_given_up_is_counted() {
    let (mut rig, mut lanes) = Rig::new(32, 1);
    rig.round();
    assert!(!rig.parent.rest() && !rig.parent.give_up());
    assert_eq!(hand_over(&mut lanes[0]), Some(32));
    assert!(rig.parent.give_up());
    assert_eq!((rig.dropped(Reason::Down), rig.sent.len()), (32, 0));
}

#[test]
fn a_batch_that_was_abandoned_is_counted() {
    let (mut rig, mut lanes) = Rig::new(32, 1);
    rig.round();
    drop(lanes[0].claim(&mut BurstStorage::default()).expect("a batch is published"));
    rig.round();
    assert_eq!((rig.dropped(Reason::WorkerStalled), rig.sent.len()), (32, 0));
    assert!(rig.parent.rest());
}

/// A queue whose frames cannot be held.
struct Unheld;

impl RxQueue for Unheld {
    fn receive<'q>(&'q self, _: &mut Burst<'_, 'q>) -> bool {
        false
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Event
    }
}

#[test]
fn a_queue_whose_frames_cannot_be_held_stays_whole() {
    let half = || Box::new(Unheld);
    let terms = Terms { outputs: 1, stalled_after: 1, drops: Arc::default(), alarms: alarms(1) };
    assert!(assign(half(), terms).is_err());
    assert!(LockedQueue::new(half()).is_err());
}

#[test]
fn lanes_of_a_locked_queue_get_every_frame_once() {
    let queue = LockedQueue::new(Box::new(Device::new(20_000))).unwrap_or_else(|_| panic!("frames can be held"));
    let mut lanes: Vec<_> = (0..3).map(|_| Lane::Locked(queue.lane().expect("the queue is there"))).collect();
    let (mut storage, mut got) = (BurstStorage::default(), Vec::new());
    let mut turn = 0;
    while got.len() < 20_000 {
        turn += 1;
        let Some(mut claimed) = lanes[turn % 3].claim(&mut storage) else { continue };
        let frames = claimed.frames().0;
        got.extend(frames.groups().flat_map(|group| group.as_slice().iter().map(move |frame| number(&group, frame))));
        claimed.complete(None, packet::MAX_BURST);
        lanes[turn % 3].notify();
    }
    assert!(got.iter().copied().eq(0..20_000));
    drop(lanes);
    assert!(queue.take().is_ok_and(|half| half.is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 200 }, failure_persistence: None, ..Default::default() })]

    /// Lanes claim, complete, abandon and stall in any order: each frame is sent once or counted, in order, and all buffers come back.
    #[test]
    fn each_frame_is_sent_once_or_counted(
        lanes in 1..5usize,
        steps in prop::collection::vec((0..5usize, 0..4u8), 0..if cfg!(miri) { 30 } else { 400 }),
    ) {
        const FRAMES: usize = 3_000;
        let (mut rig, mut lanes) = Rig::new(FRAMES, lanes);
        // Claims are held across steps: each lane is lent to at most one.
        let mut storages: Vec<_> = lanes.iter().map(|_| BurstStorage::default()).collect();
        let mut held: Vec<Option<Claimed<'_>>> = Vec::new();
        let mut idle: Vec<_> = lanes.iter_mut().zip(&mut storages).collect();
        let mut lost = 0;
        for (which, step) in steps {
            match step {
                0 => drop(rig.round()),
                1 if !idle.is_empty() => {
                    let (lane, storage) = idle.swap_remove(which % idle.len());
                    held.push(lane.claim(storage));
                }
                2 if !held.is_empty() => {
                    let at = which % held.len();
                    if let Some(mut claimed) = held.swap_remove(at) {
                        let (frames, handed) = claimed.frames();
                        frames.groups().for_each(|group| handed[0].add(group));
                        claimed.complete(None, packet::MAX_BURST);
                    }
                }
                3 if which == 0 => rig.look(),
                _ => {}
            }
        }
        lost += held.iter_mut().flatten().map(|claimed| claimed.frames().0.len()).sum::<usize>();
        held.clear();
        // A lane is left, if any is idle; otherwise none processes what is still published.
        while let Some((lane, _)) = idle.first_mut() {
            rig.round();
            hand_over(lane);
            if rig.sent.len() + rig.dropped(Reason::WorkerStalled) as usize == FRAMES {
                rig.parent.rest();
                rig.round();
                break;
            }
        }
        prop_assert!(rig.sent.is_sorted_by(|a, b| a < b), "in order, and once");
        if !idle.is_empty() {
            prop_assert_eq!(rig.sent.len() + rig.dropped(Reason::WorkerStalled) as usize, FRAMES);
            prop_assert!(rig.dropped(Reason::WorkerStalled) as usize >= lost);
            prop_assert!(rig.parent.rest());
        }
    }
}

/// More workers than processors, which stall at random. The parent is a thread of its own.
#[test]
fn threads_share_a_queue() {
    const FRAMES: usize = if cfg!(miri) { 500 } else { 300_000 };
    let (mut rig, lanes) = Rig::new(FRAMES, 6);
    let (stop, processed) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for (index, mut lane) in lanes.into_iter().enumerate() {
            let (stop, processed) = (&stop, &processed);
            scope.spawn(move || {
                let mut batches = index;
                while !stop.load(Ordering::Relaxed) {
                    match hand_over(&mut lane) {
                        Some(count) => drop(processed.fetch_add(count as u64, Ordering::Relaxed)),
                        None => thread::yield_now(),
                    }
                    batches += 1;
                    if batches.is_multiple_of(997) {
                        thread::sleep(Duration::from_micros(300));
                    }
                }
            });
        }
        while rig.sent.len() < FRAMES {
            if !rig.round() {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(rig.sent.iter().copied().eq(0..FRAMES as u64), "every frame once, and in order");
    assert_eq!(processed.into_inner(), FRAMES as u64);
    assert!(rig.parent.rest());
    let half = rig.parent.into_half();
    half.recycle();
}

/// A queue ends a burst early that has cost enough: the parent's worker serves others before it takes more.
#[test]
fn a_round_ends_with_a_burst_that_is_not_full() {
    // Full bursts until there are four batches for each of two workers.
    for (most, batches) in [(MAX_BURST, 8), (MAX_BURST - 1, 1)] {
        let device = Device { most, ..Device::new(1000) };
        let terms = Terms { outputs: 0, stalled_after: 1, drops: Arc::default(), alarms: alarms(2) };
        let Ok((mut parent, mut lanes)) = assign(Box::new(device), terms) else { panic!("frames can be held") };
        assert_eq!(parent.receive(None, &mut BurstStorage::default()), batches * most);
        let mut storage = BurstStorage::default();
        let mut claimed = 0;
        while let Some(claim) = lanes[0].claim(&mut storage) {
            claim.complete(None, MAX_BURST);
            claimed += 1;
        }
        assert_eq!(claimed, batches);
    }
}

/// A worker that is about to sleep sees what was published, or is woken.
#[test]
fn an_alarm_rings_for_a_batch() {
    let (mut rig, lanes) = Rig::new(100, 1);
    assert_eq!(lanes[0].arm(), Wait::Event);
    rig.round();
    std::sync::atomic::fence(Ordering::SeqCst);
    rig.parent.notify();
    let Lane::StaticRole(_) = &lanes[0] else { panic!("it has a parent") };
    assert_eq!(lanes[0].arm(), Wait::Ready);
    lanes[0].disarm();
}

/// The frames of a test lie where the device has them: nothing is copied.
#[test]
fn frames_stay_where_they_are() {
    let device = Device::new(1);
    let there = device.block.frame(0).as_ptr();
    let terms = Terms { outputs: 0, stalled_after: 1, drops: Arc::default(), alarms: alarms(1) };
    let Ok((mut parent, mut lanes)) = assign(Box::new(device), terms) else { panic!("frames can be held") };
    parent.receive(None, &mut BurstStorage::default());
    let mut storage = BurstStorage::default();
    let mut claimed = lanes[0].claim(&mut storage).expect("a batch is published");
    let group = claimed.frames().0.groups().next().expect("a frame");
    assert_eq!(group.as_slice()[0].first().as_ptr(), there);
}
