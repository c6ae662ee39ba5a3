//! Bursts that are held, as other threads read their frames.

use crate::support::guest::{Guest, SIZE, receive};
use crate::support::{Case, Driver, SENT, frame};
use packet::{BurstStorage, MIN_FRAME};
use proptest::prelude::*;
use std::collections::HashMap;
use virtqueue::device::Dequeue;
use virtqueue::{NET_HEADER, ordering};

/// Receives a burst and holds it. Returns its frames and what is held.
fn hold(dequeue: &Dequeue) -> (Vec<Vec<u8>>, Vec<u16>) {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    dequeue.receive(&mut burst).unwrap();
    let frames = burst.frames();
    let copy = |f| {
        let mut bytes = vec![0; 4096];
        let len = frames.copy_to(f, &mut bytes);
        bytes.truncate(len);
        bytes
    };
    let received = frames.as_slice().iter().map(copy).collect();
    let mut held = Vec::new();
    dequeue.hold(&mut held);
    dequeue.recycle();
    (received, held)
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Receive,
    /// Gives one of the held bursts back.
    GiveBack(usize),
    Reclaim,
    /// Ends or begins the sharing, if nothing is held.
    Toggle,
}

fn step() -> impl Strategy<Value = Step> {
    let parts = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 1..3)];
    prop_oneof![
        5 => parts.prop_map(Step::Send),
        2 => Just(Step::Receive),
        2 => any::<usize>().prop_map(Step::GiveBack),
        2 => Just(Step::Reclaim),
        1 => Just(Step::Toggle),
    ]
}

/// Cuts a frame and its header into pieces.
fn cuts(parts: &[u8]) -> Vec<u32> {
    let mut cuts: Vec<_> = parts.iter().map(|&part| 1 + u32::from(part) % 10).collect();
    cuts.push(NET_HEADER + MIN_FRAME - cuts.iter().sum::<u32>());
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 300 }, failure_persistence: None, ..Default::default() })]

    /// Each chain returns once, and not before its burst was given back: in the guest's order, if it demands that.
    #[test]
    fn a_guest_gets_a_held_buffer_back_once_it_is_given_back(
        [packed, in_order, event_idx]: [bool; 3],
        size in prop::sample::select(&[4u16, 8, 64][..]),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 200 }),
    ) {
        let case = Case { packed, in_order, event_idx, mergeable: true, size };
        let mut driver = Driver::new(case);
        let mut dequeue = driver.dequeue();
        dequeue.set_holding(true);
        let mut is_shared = true;
        let mut areas: Vec<u16> = (0..size).collect();
        // By id: the area, and the number of the frame in it.
        let mut area_of = HashMap::new();
        let (mut sent, mut came, mut back) = (0u32, 0u32, Vec::new());
        let mut bursts: Vec<(Vec<u32>, Vec<u16>)> = Vec::new();
        let mut reclaim = |driver: &mut Driver, areas: &mut Vec<u16>, area_of: &mut HashMap<u16, (u16, u32)>, held: &[u32]| {
            while let Some(used) = driver.queue.pop_used().unwrap() {
                let (area, number) = area_of.remove(&used.id).expect("came back once");
                assert!(!held.contains(&number), "frame {number} is held");
                areas.push(area);
                back.push(number);
            }
        };
        for step in steps {
            let held: Vec<_> = bursts.iter().flat_map(|burst| burst.0.iter().copied()).collect();
            match step {
                Step::Send(parts) => {
                    let Some(&area) = areas.last() else { continue };
                    driver.write(driver.area(area) + u64::from(NET_HEADER), &frame(sent, MIN_FRAME as usize));
                    let Some(id) = driver.add(area, &cuts(&parts), SENT) else { continue };
                    areas.pop();
                    area_of.insert(id, (area, sent));
                    sent += 1;
                    driver.queue.publish();
                }
                Step::Receive => {
                    let (frames, burst) = if is_shared { hold(&dequeue) } else { (receive(&dequeue).unwrap(), Vec::new()) };
                    let first = came;
                    for bytes in frames {
                        prop_assert_eq!(bytes, frame(came, MIN_FRAME as usize));
                        came += 1;
                    }
                    if is_shared {
                        prop_assert_eq!(burst.len(), (came - first) as usize);
                        bursts.push(((first..came).collect(), burst));
                    }
                }
                Step::GiveBack(which) if !bursts.is_empty() => {
                    let (_, burst) = bursts.remove(which % bursts.len());
                    dequeue.give_back(&burst);
                    dequeue.recycle();
                }
                Step::Toggle if held.is_empty() => {
                    bursts.drain(..).for_each(|(_, burst)| dequeue.give_back(&burst));
                    is_shared = !is_shared;
                    dequeue.set_holding(is_shared);
                }
                Step::Reclaim => reclaim(&mut driver, &mut areas, &mut area_of, &held),
                Step::GiveBack(_) | Step::Toggle => {}
            }
        }
        bursts.into_iter().for_each(|(_, burst)| dequeue.give_back(&burst));
        dequeue.recycle();
        while dequeue.has_work() {
            came += receive(&dequeue).unwrap().len() as u32;
        }
        reclaim(&mut driver, &mut areas, &mut area_of, &[]);
        prop_assert!(!in_order || back.is_sorted());
        back.sort_unstable();
        prop_assert!(came == sent && back.into_iter().eq(0..sent));
        prop_assert_eq!(driver.queue.free(), size);
    }
}

/// virtio 1.2 §2.8.1 leaves ids to the driver. A guest that gives all of its chains one of them, or one beyond its ring, gets each
/// chain back when its burst is given back, and its ring goes on.
#[test]
fn chains_with_one_id_are_held_one_by_one() {
    for id in [0, SIZE, u16::MAX] {
        let mut guest = Guest::new(true);
        let mut dequeue = guest.driver.dequeue();
        dequeue.set_holding(true);
        for _ in 0..3 {
            let lap = if guest.wrap { 1 << 7 } else { 1 << 15 };
            for slot in 0..SIZE {
                let at = guest.driver.config.descriptors + 16 * u64::from(slot);
                let addr = guest.area(slot, 60);
                guest.descriptor(at, (addr, 60 + NET_HEADER, lap), id);
            }
            guest.wrap = !guest.wrap;
            let (frames, held) = hold(&dequeue);
            assert_eq!((frames.len(), held.len()), (SIZE.into(), SIZE.into()));
            assert!(!dequeue.has_work() && receive(&dequeue) == Ok(vec![]), "the whole ring is held");
            // Repeated, and of no chain.
            dequeue.give_back(&[&held[..], &held, &[SIZE, u16::MAX]].concat());
            dequeue.recycle();
            ordering::before_asking();
        }
        assert_eq!(dequeue.kept(), 0);
    }
}
