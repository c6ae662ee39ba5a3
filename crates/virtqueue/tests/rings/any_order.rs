//! Any sequence of driver and device steps delivers every byte once and in order.

use crate::support::{Case, Driver, POSTED, ROOM, SENT, frame};
use packet::{BurstStorage, MIN_FRAME, Segment};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use virtqueue::{NET_HEADER, ordering};

fn case() -> impl Strategy<Value = Case> {
    // Miri takes a minute for a large ring. Small ones wrap in a few steps, which is where they go other ways through memory.
    let sizes: &[u16] = if cfg!(miri) { &[2, 4, 8] } else { &[2, 4, 8, 64, 256] };
    let size = prop::sample::select(sizes);
    (any::<[bool; 4]>(), size).prop_map(|([packed, in_order, event_idx, mergeable], size)| Case {
        packed,
        in_order,
        event_idx,
        mergeable,
        size,
    })
}

/// Cuts `len` into a few positive parts.
fn cut(len: u32, parts: &[u8]) -> Vec<u32> {
    let mut left = len;
    let mut cuts = Vec::new();
    for &part in parts {
        let take = 1 + u32::from(part) * u32::from(part) % left.max(1);
        if take < left {
            cuts.push(take);
            left -= take;
        }
    }
    cuts.push(left);
    cuts
}

#[derive(Clone, Debug)]
enum Step {
    Send { len: u16, parts: Vec<u8> },
    Publish,
    Receive,
    Recycle,
    Reclaim,
}

fn step() -> impl Strategy<Value = Step> {
    let parts = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 1..5)];
    prop_oneof![
        4 => (MIN_FRAME as u16..2000, parts).prop_map(|(len, parts)| Step::Send { len, parts }),
        2 => Just(Step::Publish),
        2 => Just(Step::Receive),
        1 => Just(Step::Recycle),
        2 => Just(Step::Reclaim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 300 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_a_guest_sends_arrives_once_in_order(case in case(), steps in prop::collection::vec(step(), 1..if cfg!(miri) { 16 } else { 200 })) {
        let mut driver = Driver::new(case);
        let dequeue = driver.dequeue();
        let mut storage = Box::<BurstStorage>::default();
        let (mut sent, mut published) = (VecDeque::new(), 0);
        let mut areas: Vec<u16> = (0..case.size).collect();
        let mut area_of = HashMap::new();
        let (mut number, mut out, mut back) = (0, 0, 0);
        for step in steps {
            match step {
                Step::Send { len, parts } => {
                    let Some(area) = areas.pop() else { continue };
                    let bytes = frame(number, len.into());
                    driver.write(driver.area(area) + u64::from(NET_HEADER), &bytes);
                    match driver.add(area, &cut(u32::from(len) + NET_HEADER, &parts), SENT) {
                        Some(id) => {
                            area_of.insert(id, area);
                            sent.push_back(bytes);
                            number += 1;
                        }
                        None => areas.push(area),
                    }
                }
                Step::Publish => {
                    driver.queue.publish();
                    published = number;
                }
                Step::Receive => {
                    let mut burst = storage.start();
                    let taken = dequeue.receive(&mut burst).unwrap();
                    prop_assert_eq!(taken, burst.len());
                    let frames = burst.frames();
                    for f in frames.as_slice() {
                        let bytes: Vec<u8> = frames.segments(f).flat_map(|s| bytes_of(&s)).collect();
                        prop_assert_eq!(Some(bytes), sent.pop_front());
                        out += 1;
                    }
                    prop_assert!(out <= published);
                    dequeue.recycle();
                }
                Step::Recycle => dequeue.recycle(),
                Step::Reclaim => {
                    while let Some(used) = driver.queue.pop_used().unwrap() {
                        areas.push(area_of.remove(&used.id).expect("came back once"));
                        back += 1;
                    }
                    prop_assert!(back <= out);
                }
            }
        }
        driver.queue.publish();
        while dequeue.has_work() {
            let mut burst = storage.start();
            out += dequeue.receive(&mut burst).unwrap() as u32;
            dequeue.recycle();
        }
        while driver.queue.pop_used().unwrap().is_some() { back += 1; }
        prop_assert_eq!((out, back), (number, number));
        prop_assert_eq!(driver.queue.free(), case.size);
    }

    #[test]
    fn what_a_switch_delivers_arrives_once_in_order(
        case in case(),
        rounds in prop::collection::vec((0usize..40, prop::collection::vec((MIN_FRAME..3000, prop::collection::vec(any::<u8>(), 0..3)), 0..if cfg!(miri) { 10 } else { 32 }), any::<bool>()), 1..if cfg!(miri) { 3 } else { 30 }),
        room in prop_oneof![Just(60u32), Just(300), Just(1536), Just(ROOM)],
        parts in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut driver = Driver::new(case);
        let enqueue = driver.enqueue();
        let mut storage = Box::<BurstStorage>::default();
        let mut areas: VecDeque<u16> = (0..case.size).collect();
        let mut area_of = HashMap::new();
        let mut expected = VecDeque::new();
        let mut number = 0;
        for (post, frames, reclaim) in rounds {
            for _ in 0..post {
                let Some(&area) = areas.front() else { break };
                let Some(id) = driver.add(area, &cut(room, &parts), POSTED) else { break };
                areas.pop_front();
                area_of.insert(id, area);
            }
            driver.queue.publish();
            let frames: Vec<_> = frames.iter().map(|(len, parts)| {
                number += 1;
                (frame(number, *len as usize), parts.clone())
            }).collect();
            let mut burst = storage.start();
            for (bytes, parts) in &frames {
                let mut rest = Segment::from(&bytes[..]);
                let mut segments = vec![];
                for len in cut(bytes.len() as u32, parts) {
                    let (now, later) = rest.split_at(len);
                    segments.push(now);
                    rest = later;
                }
                prop_assert!(burst.push_segments(segments));
            }
            let done = enqueue.transmit(burst.frames()).unwrap();
            prop_assert_eq!((done.frames + done.no_buffers + done.too_long) as usize, frames.len());
            let too_long = |f: &[u8]| f.len() as u32 + NET_HEADER > room && (!case.mergeable || f.len() as u32 + NET_HEADER > room * u32::from(case.size));
            let fits: Vec<_> = frames.iter().filter(|f| !too_long(&f.0)).take(done.frames as usize).map(|f| f.0.clone()).collect();
            prop_assert_eq!(fits.len(), done.frames as usize);
            expected.extend(fits);
            if reclaim {
                collect(&mut driver, &mut area_of, &mut areas, &mut expected)?;
            }
        }
        collect(&mut driver, &mut area_of, &mut areas, &mut expected)?;
        prop_assert!(expected.is_empty());
    }
}

/// Collects received frames on the driver side and compares them with the expected ones.
fn collect(
    driver: &mut Driver,
    area_of: &mut HashMap<u16, u16>,
    areas: &mut VecDeque<u16>,
    expected: &mut VecDeque<Vec<u8>>,
) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    let mut left = 0;
    while let Some(used) = driver.queue.pop_used().unwrap() {
        let area = area_of.remove(&used.id).expect("came back once");
        areas.push_back(area);
        let mut part = driver.read(driver.area(area), used.len);
        if left == 0 {
            let header = part[..NET_HEADER as usize].to_vec();
            prop_assert_eq!(&header[..10], &[0; 10]);
            left = u16::from_le_bytes([header[10], header[11]]);
            part.drain(..NET_HEADER as usize);
        }
        bytes.append(&mut part);
        left -= 1;
        if left == 0 {
            prop_assert_eq!(Some(std::mem::take(&mut bytes)), expected.pop_front());
        }
    }
    prop_assert_eq!(left, 0, "a frame is published whole");
    Ok(())
}

fn bytes_of(segment: &Segment<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = *segment;
    while let Some(some) = rest.read::<100>() {
        bytes.extend(some);
        rest = rest.split_at(100).1;
    }
    let mut last = [0; 100];
    let len = rest.copy_to(&mut last);
    bytes.extend(&last[..len]);
    bytes
}

/// Both sides get a notification for every buffer if they ask for it, and none otherwise.
#[test]
fn notifications_follow_what_was_asked() {
    for bits in 0..8 {
        let case =
            Case { packed: bits & 1 != 0, event_idx: bits & 2 != 0, in_order: bits & 4 != 0, mergeable: true, size: 8 };
        let mut driver = Driver::new(case);
        let dequeue = driver.dequeue();
        let mut storage = Box::<BurstStorage>::default();
        // More than a lap of the ring.
        for round in 0..if cfg!(miri) { 10 } else { 40 } {
            let wanted = round % 3 != 0;
            dequeue.set_kicks(wanted);
            driver.queue.set_interrupts(wanted);
            driver.write(driver.area(round % 8) + 12, &frame(1, 64));
            let id = driver.add(round % 8, &[76], SENT).unwrap();
            assert!(!dequeue.has_work());
            driver.queue.publish();
            ordering::before_asking();
            let silent = !wanted && !case.event_idx;
            if wanted || silent {
                assert_eq!(driver.queue.wants_kick(), wanted, "{case:?} round {round}");
            } else {
                driver.queue.wants_kick();
            }
            assert!(dequeue.has_work());
            let mut burst = storage.start();
            assert_eq!(dequeue.receive(&mut burst), Ok(1));
            dequeue.recycle();
            ordering::before_asking();
            if wanted || silent {
                assert_eq!(dequeue.wants_notification(), wanted, "{case:?} round {round}");
            } else {
                dequeue.wants_notification();
            }
            assert!(!dequeue.wants_notification(), "once is enough");
            assert_eq!(driver.queue.pop_used().unwrap().unwrap().id, id);
        }
    }
}

/// A stopped queue can resume elsewhere at its base.
#[test]
fn a_base_carries_over() {
    for packed in [false, true] {
        // In both cases some laps of the ring, the second of which inverts a packed ring's flags.
        let (size, rounds) = if cfg!(miri) { (2, 5) } else { (8, 50) };
        let case = Case { packed, in_order: false, event_idx: false, mergeable: true, size };
        let mut driver = Driver::new(case);
        let mut storage = Box::<BurstStorage>::default();
        for round in 0..rounds {
            let dequeue = driver.dequeue();
            let bytes = frame(round, 100);
            driver.write(driver.area(0) + 12, &bytes);
            driver.add(0, &[112], SENT).unwrap();
            driver.queue.publish();
            let mut burst = storage.start();
            assert_eq!(dequeue.receive(&mut burst), Ok(1), "packed {packed} round {round}");
            assert_eq!(bytes_of(&burst.frames().as_slice()[0].first()), bytes);
            dequeue.recycle();
            driver.queue.pop_used().unwrap().unwrap();
            driver.config.base = dequeue.base();
        }
    }
}
