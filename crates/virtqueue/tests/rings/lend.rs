//! Buffers that are lent, filled elsewhere, and delivered in place, copied from, or returned.

use crate::support::posting::{Guest, case};
use crate::support::{POSTED, frame, lend, take_filled};
use packet::{Burst, BurstStorage, MIN_FRAME, Origin, Segment};
use proptest::prelude::*;
use virtqueue::NET_HEADER;
use virtqueue::device::{Enqueue, Landing, Loan, Prefetch, Terms};

const ROOM: u32 = 2048;

#[derive(Clone, Debug)]
enum Step {
    Post(u8),
    Lend(u8),
    /// Some loans, those at `places`, come back filled in any order. `kinds` tells which frames go to the guest.
    Burst {
        places: Vec<u8>,
        kinds: Vec<bool>,
        len: u16,
    },
    /// A frame of another port is copied.
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
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 300 }, failure_persistence: None, ..Default::default() })]

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
                        loans.extend(lend(&guest.enqueue, ROOM, 0).unwrap());
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
                        prop_assert!(take_filled(&guest.enqueue, loan, Landing::whole(len.into()), &mut burst).is_none());
                    }
                    let frames = burst.frames();
                    let mine: Vec<_> = frames.as_slice().iter().zip(&kinds).filter(|f| *f.1).map(|f| *f.0).collect();
                    let done = guest.enqueue.transmit(frames.select(&mine)).unwrap();
                    prop_assert_eq!(done.frames as usize, mine.len());
                    expected.extend(bytes.iter().zip(&kinds).filter(|f| *f.1).map(|f| f.0.clone()));
                    // Nothing is returned to the guest before other ports have copied their frames.
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
        // A successor resumes where the used ring ends, and finds the posted and unused buffers.
        let mut config = guest.driver.config;
        config.base = guest.enqueue.base();
        let successor = Enqueue::new(guest.driver.arena.memory().clone(), &config).unwrap();
        let mut left = 0;
        while lend(&successor, ROOM, 0).unwrap().is_some() {
            left += 1;
        }
        prop_assert_eq!(left, guest.area_of.len(), "had lent: {}", had_lent);
    }
}

/// Adds the frame in `loan` to `burst`; returns false if the loan cannot hold it.
fn taken<'q>(guest: &'q Guest, loan: Loan, len: u32, burst: &mut Burst<'_, 'q>) -> bool {
    take_filled(&guest.enqueue, loan, Landing::whole(len), burst).is_none()
}

#[test]
fn what_can_not_be_in_a_buffer_is_refused() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 16));
        guest.post(16, 100);
        let other = Guest::new(case(packed, 8));
        let mut storage = Box::<BurstStorage>::default();
        for len in [0, MIN_FRAME - 1, 100 - NET_HEADER + 1, u32::MAX] {
            let loan = lend(&guest.enqueue, 100, 0).unwrap().unwrap();
            assert!(!taken(&guest, loan, len, &mut storage.start()), "{len}");
        }
        for (head, at, len) in [(0, 101, 0), (0, 80, 21), (0, u32::MAX, 20), (10, 12, 3), (65_552, 12, 20)] {
            let loan = lend(&guest.enqueue, 100, 0).unwrap().unwrap();
            let bytes = vec![0; head];
            let landing = Landing { head: Some(Segment::from(&bytes[..])), at, len, has_header: false };
            assert!(take_filled(&guest.enqueue, loan, landing, &mut storage.start()).is_some(), "{head} {at} {len}");
        }
        let loan = lend(&guest.enqueue, 100, 0).unwrap().unwrap();
        assert!(!taken(&other, loan, 60, &mut storage.start()), "lent by another queue");
        let loan = lend(&guest.enqueue, 100, 0).unwrap().unwrap();
        other.enqueue.give_back(loan);
        assert!(lend(&other.enqueue, 1, 0).unwrap().is_none(), "it is none of its own");
    }
}

#[test]
fn buffers_that_are_too_short_or_needed_elsewhere_stay() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        guest.post(4, 1000);
        assert!(lend(&guest.enqueue, 1001, 0).unwrap().is_none());
        assert_eq!(guest.enqueue.unfit(Terms { room: 1001, keep: 0, most: 1 }), Some(1000));
        assert!(lend(&guest.enqueue, 1000, 4).unwrap().is_none());
        assert_eq!(
            (
                guest.enqueue.unfit(Terms { room: 1000, keep: 4, most: 1 }),
                guest.enqueue.unfit(Terms { room: 1000, keep: 0, most: 1 })
            ),
            (None, None)
        );
        assert!(lend(&guest.enqueue, 1000, 3).unwrap().is_some());
        assert!(lend(&guest.enqueue, 1000, 3).unwrap().is_none());
        guest.driver.add(7, &[500, 500], POSTED).unwrap();
        guest.driver.queue.publish();
        let lent = std::iter::from_fn(|| lend(&guest.enqueue, 500, 0).unwrap()).count();
        assert_eq!(lent, 3, "a buffer in pieces is not lent");
        assert_eq!(guest.enqueue.unfit(Terms { room: 500, keep: 0, most: 1 }), Some(500), "it is the pieces");
    }
}

/// A lent buffer that several frames came in never reaches the guest: each of them is copied to another one.
#[test]
fn parts_of_a_frame_are_copied_out_of_its_buffer() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 16));
        guest.post(8, ROOM);
        let loans = [(); 2].map(|()| lend(&guest.enqueue, ROOM, 0).unwrap().unwrap());
        let frames = [frame(1, 300), frame(2, 400)];
        loans.iter().zip(&frames).for_each(|(loan, bytes)| guest.fill(loan, bytes));
        let taken_apart = loans[0].addr();
        let (mut storage, mut other) = (Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
        let mut burst = storage.start();
        for (loan, bytes) in loans.into_iter().zip(&frames) {
            assert!(taken(&guest, loan, bytes.len() as u32, &mut burst));
        }
        let arrived = burst.frames();
        let [first, second] = arrived.as_slice() else { panic!("two frames") };
        assert!(first.is_lent() && second.is_lent());
        // The frame's own headers, and then its parts; one of them in pieces.
        let (a, rest) = first.first().split_at(20).1.split_at(40);
        let (b, c) = rest.split_at(100);
        let mut packets = other.start();
        [a, b].into_iter().for_each(|part| packets.push_from(part, Origin::PART));
        packets.push(second.first());
        let pieces: [Segment<'_>; 2] = c.split_at(30).into();
        assert!(packets.push_segments_from(pieces, Origin::PART));
        assert_eq!(guest.enqueue.transmit(packets.frames()).unwrap().frames, 4);
        let mut back = Vec::new();
        guest.enqueue.settle(|loan| back.push(loan));
        assert_eq!(back.iter().map(Loan::addr).collect::<Vec<_>>(), [taken_apart]);
        guest.collect();
        let expected = [&frames[0][20..60], &frames[0][60..160], &frames[1], &frames[0][160..]];
        assert_eq!(guest.received, expected);
        assert_eq!(guest.empty, 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many buffers")]
fn many_buffers_can_stay() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 256));
        guest.post(256, ROOM);
        let mut loans = Vec::new();
        loop {
            guest.enqueue.read_ahead(150, Prefetch::when(packed)).unwrap();
            let before = loans.len();
            loans.extend(lend(&guest.enqueue, ROOM, 150).unwrap());
            if loans.len() == before {
                break;
            }
        }
        assert_eq!((loans.len(), guest.enqueue.posted()), (106, 150));
        guest.enqueue.lend_no_more();
        loans.into_iter().for_each(|loan| guest.enqueue.give_back(loan));
        guest.enqueue.close();
        guest.collect();
        assert_eq!(guest.empty, 256, "it has lent, so all come back");
    }
}

/// A guest that posts a buffer twice finds one frame in place of the other; each chain still comes back once.
#[test]
fn the_same_buffer_twice() {
    for packed in [false, true] {
        let mut guest = Guest::new(case(packed, 8));
        for _ in 0..2 {
            guest.driver.add(0, &[ROOM], POSTED).unwrap();
        }
        guest.driver.queue.publish();
        let loans = [(); 2].map(|()| lend(&guest.enqueue, ROOM, 0).unwrap().unwrap());
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

/// Location of a frame on arrival, and its changes on the way to the guest.
#[derive(Clone, Debug)]
struct Edit {
    /// Bytes written elsewhere, and the offset of the rest.
    elsewhere: usize,
    at: u32,
    /// Bytes stripped, as a tunnel's headers are.
    off: usize,
    /// Replaces a range of bytes by `put` others, as a VLAN tag.
    cut: (usize, usize),
    put: usize,
}

fn edit() -> impl Strategy<Value = Edit> {
    let off = prop_oneof![Just(0), Just(50), 1usize..80];
    let elsewhere = prop_oneof![Just(0), Just(50), Just(62), 0usize..90];
    let tag = prop_oneof![Just((12, 12, 0)), Just((12, 16, 0)), Just((12, 12, 4)), Just((0, 3, 7))];
    (elsewhere, 0u32..90, off, tag).prop_map(|(elsewhere, at, off, (a, b, put))| Edit {
        elsewhere,
        at,
        off,
        cut: (a, b),
        put,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 500 }, failure_persistence: None, ..Default::default() })]

    /// Wherever a frame lies and whatever precedes it, the guest gets it behind the header; and until the burst ends,
    /// all other readers see the original.
    #[test]
    fn frames_are_moved_to_where_the_guest_wants_them(
        packed in any::<bool>(),
        edits in prop::collection::vec((edit(), 100usize..400), 1..8),
    ) {
        let mut guest = Guest::new(case(packed, 16));
        guest.post(16, ROOM);
        let heads: Vec<Vec<u8>> = edits.iter().enumerate().map(|(n, (_, len))| frame(n as u32, *len)).collect();
        let tag = [0xaa; 8];
        let (mut storage, mut other) = (Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
        let mut burst = storage.start();
        for ((edit, _), bytes) in edits.iter().zip(&heads) {
            let loan = lend(&guest.enqueue, ROOM, 0).unwrap().unwrap();
            let (head, rest) = bytes.split_at(edit.elsewhere.min(bytes.len()));
            guest.write(&loan, edit.at, rest);
            let head = (!head.is_empty()).then(|| Segment::from(head));
            let landing = Landing { head, at: edit.at, len: rest.len() as u32, has_header: false };
            prop_assert!(take_filled(&guest.enqueue, loan, landing, &mut burst).is_none());
        }
        let mut offs = edits.iter().map(|(edit, _)| edit.off as u32);
        burst.trim(|_, frame| Some((offs.next().unwrap(), frame.len())));
        let frames = burst.frames();
        let mut edited = other.start();
        let mut expected = Vec::new();
        for ((edit, _), (frame, bytes)) in edits.iter().zip(frames.as_slice().iter().zip(&heads)) {
            let (mut at, (from, to)) = (0, edit.cut);
            let pieces: Vec<_> = frames.segments(frame).collect();
            let mut before = Vec::new();
            let mut after = Vec::new();
            for piece in pieces {
                let (a, rest) = piece.split_at((from as u32).saturating_sub(at));
                let (_, b) = rest.split_at((to as u32).saturating_sub(at + a.len()));
                at += piece.len();
                before.extend((!a.is_empty()).then_some(a));
                after.extend((!b.is_empty()).then_some(b));
            }
            let put = (edit.put > 0).then(|| Segment::from(&tag[..edit.put]));
            prop_assert!(edited.push_segments(before.into_iter().chain(put).chain(after)));
            let whole = &bytes[edit.off..];
            expected.push([&whole[..from], &tag[..edit.put], &whole[to..]].concat());
        }
        prop_assert_eq!(guest.enqueue.transmit(edited.frames()).unwrap().frames as usize, edits.len());
        for (frame, (bytes, (edit, _))) in frames.as_slice().iter().zip(heads.iter().zip(&edits)) {
            let mut copy = vec![0; frame.len() as usize];
            frames.copy_to(frame, &mut copy);
            prop_assert_eq!(&copy, &bytes[edit.off..], "somebody else may still have to copy it");
        }
        let mut unclaimed = 0;
        guest.enqueue.settle(|_| unclaimed += 1);
        guest.collect();
        // Frames that lie mostly elsewhere were copied to other buffers, which were used at once.
        guest.received.sort();
        expected.sort();
        prop_assert_eq!(&guest.received, &expected);
        let stays = |(edit, len): &&(Edit, usize)| {
            let elsewhere = edit.elsewhere.saturating_sub(edit.off);
            let in_front = if edit.cut == (12, 12) && edit.put == 0 && elsewhere == 0 { 0 } else { elsewhere };
            edit.cut == (12, 12) && edit.put == 0 && in_front <= 16 && edit.elsewhere < *len
        };
        let in_place = edits.iter().filter(stays).count();
        prop_assert!(edits.len() - unclaimed >= in_place, "{} of {} were not delivered in place", unclaimed, edits.len());
    }
}

#[test]
fn a_popped_or_pushed_tag_and_a_tunnel_take_no_other_buffer() {
    for packed in [false, true] {
        // Offset of the frame, bytes stripped, and how many bytes after the addresses are replaced by how many.
        for (at, off, cut, put) in
            [(12, 0, 4, 0), (8, 0, 4, 0), (12, 0, 0, 4), (16, 0, 0, 4), (12, 50, 0, 0), (12, 50, 0, 4)]
        {
            let mut guest = Guest::new(case(packed, 8));
            guest.post(1, ROOM);
            let loan = lend(&guest.enqueue, ROOM, 0).unwrap().unwrap();
            let bytes = frame(1, 300);
            guest.write(&loan, at, &bytes);
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            assert!(take_filled(&guest.enqueue, loan, Landing { at, ..Landing::whole(300) }, &mut burst).is_none());
            burst.trim(|_, frame| Some((off, frame.len())));
            let frames = burst.frames();
            let whole = frames.as_slice()[0];
            let (addresses, rest) = whole.first().split_at(12);
            let tag = [0xaa; 4];
            let put = (put > 0).then(|| Segment::from(&tag[..]));
            let mut other = Box::<BurstStorage>::default();
            let mut edited = other.start();
            assert!(edited.push_segments([addresses].into_iter().chain(put).chain([rest.split_at(cut).1])));
            assert_eq!(guest.enqueue.transmit(edited.frames()).unwrap().frames, 1);
            guest.enqueue.settle(|_| panic!("it was delivered"));
            guest.collect();
            let inner = &bytes[off as usize..];
            let tag = if put.is_some() { &tag[..] } else { &[] };
            assert_eq!(guest.received, [[&inner[..12], tag, &inner[12 + cut as usize..]].concat()]);
        }
    }
}

/// All buffers of the largest ring, on loan at once, come back, and are lent and returned again.
#[test]
#[cfg_attr(miri, ignore = "too many buffers")]
fn all_of_the_largest_ring() {
    for packed in [false, true] {
        let size = virtqueue::MAX_QUEUE_SIZE;
        let mut guest = Guest::new(case(packed, size));
        guest.post(size.into(), ROOM);
        for _ in 0..2 {
            let loans: Vec<Loan> = std::iter::from_fn(|| lend(&guest.enqueue, ROOM, 0).unwrap()).collect();
            let addresses: std::collections::HashSet<u64> = loans.iter().map(Loan::addr).collect();
            assert_eq!((loans.len(), addresses.len()), (size.into(), size.into()));
            loans.into_iter().for_each(|loan| guest.enqueue.give_back(loan));
        }
        guest.enqueue.close();
        guest.collect();
        assert_eq!(guest.empty, size.into());
    }
}

/// Loans come back to a queue that is meanwhile full of long chains: indirect tables, which take a slot each.
#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn loans_come_back_to_a_queue_full_of_chains() {
    use crate::support::guest::{Guest, INDIRECT, NEXT, WRITE, transmit};
    for packed in [false, true] {
        let mut guest = Guest::sized(packed, 256);
        let enqueue = guest.driver.enqueue();
        (0..200).for_each(|area| guest.offer(&[(guest.driver.area(area), ROOM, WRITE)]));
        let loans: Vec<Loan> = std::iter::from_fn(|| lend(&enqueue, ROOM, 0).unwrap()).collect();
        assert_eq!(loans.len(), 200);
        let (table, byte) = (guest.driver.area(200), guest.driver.area(201));
        let entries = virtqueue::MAX_CHAIN;
        for at in 0..entries {
            let next = if at + 1 < entries { NEXT } else { 0 };
            guest.descriptor(table + 16 * u64::from(at), (byte, 1, WRITE | next), at + 1);
        }
        for _ in 0..4 {
            guest.offer(&[(table, 16 * u32::from(entries), INDIRECT)]);
        }
        for _ in 0..4 {
            assert_eq!(transmit(&enqueue, &[&[0; 8000]]).unwrap().frames, 0, "no room for all of it");
        }
        let addresses: Vec<u64> = loans.iter().map(Loan::addr).collect();
        loans.into_iter().rev().for_each(|loan| enqueue.give_back(loan));
        let again = std::iter::from_fn(|| lend(&enqueue, ROOM, 0).unwrap());
        assert_eq!(again.map(|loan| loan.addr()).collect::<Vec<_>>(), addresses, "in the order in which they came");
    }
}
