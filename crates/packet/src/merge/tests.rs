//! Tests of what is merged, of what is not, and of what comes out when it is cut again.

mod segment;

use super::*;
use crate::frame::{BurstStorage, Headers as Ethernets, MAX_FRAME, Unjudged};
use crate::offload::{Work, sample::naive};
use crate::segmenter::{MAX_HEADERS, Segmenter};
use crate::{Cursor, checksum::Sum};
use proptest::prelude::*;
use segment::*;

const ALL: Limits = Limits { takes: Offloads::ALL, longest: MAX_FRAME };

/// A frame that left: its bytes and description, and which of those that came are in it.
#[derive(Debug)]
struct Left {
    bytes: Vec<u8>,
    offload: Offload,
    of: Vec<usize>,
}

/// Merges frames that lie in pieces: each is cut at this offset.
fn merge_at(frames: &[Vec<u8>], cut: usize, limits: Limits, offload: impl Fn(usize) -> Offload) -> Vec<Left> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for (index, frame) in frames.iter().enumerate() {
        let (front, back) = frame.split_at(cut.min(frame.len()));
        let pieces = [front, back].into_iter().filter(|piece| !piece.is_empty()).map(Segment::from);
        assert!(burst.push_segments(pieces));
        burst.leave(offload(index));
    }
    let mut ethernets = Ethernets::default();
    let judged = burst.frames().judge(&mut ethernets).end();
    let crate::Kind::Headers(taken) = judged.taken() else { unreachable!() };
    let one = merged(burst.frames(), Unjudged, limits);
    let other = merged(judged.frames(), taken, limits);
    assert!(one.iter().zip(&other).all(|(one, other)| (&one.bytes, &one.of) == (&other.bytes, &other.of)));
    one
}

fn merged<'b>(frames: Frames<'b>, taken: impl Taken<'b>, limits: Limits) -> Vec<Left> {
    let mut merger = Box::<Merger>::default();
    let bytes = |index: usize| -> Vec<u8> {
        let frame = &frames.as_slice()[index];
        let mut out = vec![0; frame.len() as usize];
        frames.copy_to(frame, &mut out);
        out
    };
    let alone = |index| Left { bytes: bytes(index), offload: frames.as_slice()[index].offload(), of: vec![index] };
    let Some(merged) = merger.merge(&frames, taken, limits) else {
        return (0..frames.len()).map(alone).collect();
    };
    assert!(may_merge(frames.as_slice()), "lengths alone said that there is nothing");
    let left = |outgoing| match outgoing {
        Outgoing::Frame(index) => alone(index),
        Outgoing::Message(message) => {
            let mut bytes = Vec::new();
            message.segments(&frames, taken).for_each(|piece| piece.read_pieces(|part| bytes.extend_from_slice(part)));
            Left { bytes, offload: message.offload(), of: message.members().collect() }
        }
    };
    merged.frames().map(left).collect()
}

fn merge(frames: &[Vec<u8>]) -> Vec<Left> {
    merge_at(frames, usize::MAX, ALL, |_| Offload::NONE)
}

fn frames(segments: &[Tcp]) -> Vec<Vec<u8>> {
    segments.iter().map(Tcp::frame).collect()
}

/// Returns which frames go together.
fn groups(segments: &[Tcp]) -> Vec<Vec<usize>> {
    merge(&frames(segments)).into_iter().map(|left| left.of).collect()
}

/// Cuts a frame as its description says.
fn cut(left: &Left) -> Vec<Vec<u8>> {
    let Work::Cut(cut) = left.offload.work() else { return vec![left.bytes.clone()] };
    let whole = [Segment::from(&left.bytes[..])];
    let segmenter = Segmenter::new(whole.into_iter(), left.bytes.len() as u32, cut).expect("it holds for the frame");
    let mut at = Cursor::new(whole);
    at.skip(segmenter.headers_len() as u32);
    let one = |index| {
        let (mut sum, mut payload) = (Sum::new(), Vec::new());
        at.take(segmenter.payload(index).len() as u32).for_each(|piece| {
            piece.read_pieces(|part| {
                sum.add(part);
                payload.extend_from_slice(part);
            });
        });
        let mut room = [0; MAX_HEADERS];
        let len = segmenter.write(index, sum, &mut room);
        [&room[..len], &payload].concat()
    };
    (0..segmenter.count()).map(one).collect()
}

/// Returns a series of segments with payloads of these lengths.
fn series(is_v6: bool, payloads: &[usize]) -> Vec<Tcp> {
    let mut all: Vec<Tcp> = Vec::new();
    for &payload in payloads {
        let next = all.last().map_or_else(|| Tcp::new(is_v6, payload), |last| last.next(payload));
        all.push(next);
    }
    all
}

#[test]
fn a_series_becomes_a_message_and_is_cut_into_what_it_was() {
    for (is_v6, tags) in [(false, vec![]), (true, vec![]), (false, vec![5]), (true, vec![0x6005, 7])] {
        let mut all = series(is_v6, &[1000, 1000, 1000, 1000, 999]);
        all.iter_mut().for_each(|segment| segment.tags = tags.clone());
        all[4].flags |= PSH | FIN;
        let frames = frames(&all);
        for at in [usize::MAX, 20, 61, 300] {
            let left = merge_at(&frames, at, ALL, |_| Offload::NONE);
            assert_eq!(left.iter().map(|left| &left.of[..]).collect::<Vec<_>>(), [[0, 1, 2, 3, 4]]);
            assert_eq!(cut(&left[0]), frames);
            // The message has a right IP header, and the sum of the pseudo-header instead of a checksum.
            let ip = 14 + 4 * tags.len();
            assert!(is_v6 || naive(&left[0].bytes[ip..ip + 20]) == 0);
            let header = crate::offload::header::write(left[0].offload);
            let head = &left[0].bytes[..crate::HEAD];
            let read = crate::offload::header::read(header, Offloads::ALL, left[0].bytes.len() as u32, head);
            assert_eq!(read, Ok(left[0].offload));
        }
    }
}

/// Reports whether a segment continues the first one, and is what came when it is cut again.
fn continues(is_v6: bool, change: impl FnOnce(&mut Tcp)) -> bool {
    let mut all = series(is_v6, &[500, 500]);
    change(&mut all[1]);
    let frames = frames(&all);
    let left = merge(&frames);
    assert_eq!(left.iter().flat_map(cut).collect::<Vec<_>>(), frames);
    left.len() == 1
}

#[test]
fn segments_of_other_connections_do_not_continue_one() {
    for is_v6 in [false, true] {
        assert!(continues(is_v6, |_| {}));
        assert!(!continues(is_v6, |next| next.macs = 4));
        assert!(!continues(is_v6, |next| next.tags = vec![1]));
        assert!(!continues(is_v6, |next| next.host = 2));
        assert!(!continues(is_v6, |next| next.ports[0] += 1));
        assert!(!continues(is_v6, |next| next.ports[1] += 1));
    }
    assert!(!continues(false, |next| *next = Tcp { is_v6: true, ..next.clone() }));
}

#[test]
fn segments_that_say_something_else_do_not_continue_one() {
    for is_v6 in [false, true] {
        assert!(!continues(is_v6, |next| next.class = 1));
        assert!(!continues(is_v6, |next| next.hops = 63));
        assert!(!continues(is_v6, |next| next.sequence += 1));
        assert!(!continues(is_v6, |next| next.sequence -= 1));
        assert!(!continues(is_v6, |next| next.ack += 1));
        assert!(!continues(is_v6, |next| next.window += 1));
        assert!(!continues(is_v6, |next| next.urgent += 1));
        assert!(!continues(is_v6, |next| next.reserved = 1));
        assert!(!continues(is_v6, |next| next.options[7] += 1), "a timestamp");
        assert!(!continues(is_v6, |next| next.options.truncate(8)));
        for flag in [SYN, RST, URG, ECE, CWR] {
            assert!(!continues(is_v6, |next| next.flags |= flag), "{flag}");
        }
        assert!(!continues(is_v6, |next| next.flags = 0));
        assert!(continues(is_v6, |next| next.flags |= PSH));
        assert!(continues(is_v6, |next| next.flags |= FIN));
    }
    assert!(!continues(true, |next| next.label += 1));
    assert!(!continues(false, |next| next.fragment = 0));
}

#[test]
fn what_the_first_segment_says_may_be_said_again() {
    let mut all = series(false, &[500, 500, 500]);
    all.iter_mut().for_each(|segment| segment.flags |= ECE);
    assert_eq!(groups(&all), [[0, 1, 2]]);
    for flag in [SYN, RST, URG, CWR] {
        all.iter_mut().for_each(|segment| segment.flags = ACK | flag);
        assert_eq!(groups(&all), [[0], [1], [2]], "{flag}");
    }
}

#[test]
fn numbers_of_packets_follow_each_other_unless_they_mean_nothing() {
    let may = |fragment, id: u16| {
        let mut all = series(false, &[500, 500]);
        all.iter_mut().for_each(|segment| segment.fragment = fragment);
        all[1].id = all[0].id.wrapping_add(id);
        groups(&all).len() == 1
    };
    assert!(may(0x4000, 1) && may(0x4000, 0) && !may(0x4000, 2) && !may(0x4000, 0xffff));
    assert!(may(0, 1) && !may(0, 0) && !may(0, 2));
    // Fragments, and the reserved flag.
    assert!(!may(0x2000, 1) && !may(0x0001, 1) && !may(0x8000, 1));
}

#[test]
fn lengths_end_a_message() {
    assert_eq!(groups(&series(false, &[500, 500, 400, 500, 500])), [vec![0, 1, 2], vec![3, 4]]);
    assert_eq!(groups(&series(false, &[500, 600, 600])), [vec![0], vec![1, 2]]);
    assert_eq!(groups(&series(false, &[500, 0, 500, 500])), [vec![0], vec![1], vec![2, 3]]);
    // Too short to begin a message, and the shortest that does.
    assert_eq!(groups(&series(true, &[31, 31, 500])), [[0], [1], [2]]);
    assert_eq!(groups(&series(true, &[32, 32])), [[0, 1]]);
    // The longest packet.
    for is_v6 in [false, true] {
        let all = series(is_v6, &[4000; 20]);
        let headers = if is_v6 { 72 } else { 52 };
        assert_eq!(merge(&frames(&all))[0].of.len(), (65_535 - headers) / 4000);
        let limits = Limits { longest: 4000 * 3 + 14 + headers as u32, ..ALL };
        assert_eq!(merge_at(&frames(&all), 70, limits, |_| Offload::NONE)[0].of, [0, 1, 2]);
        let limits = Limits { longest: limits.longest - 1, ..ALL };
        assert_eq!(merge_at(&frames(&all), 70, limits, |_| Offload::NONE)[0].of, [0, 1]);
    }
}

#[test]
fn the_end_of_a_message_is_the_end() {
    let mut all = series(false, &[500; 4]);
    all[1].flags |= PSH;
    assert_eq!(groups(&all), [[0, 1], [2, 3]]);
    all[0].flags |= PSH;
    assert_eq!(groups(&all), [vec![0], vec![1], vec![2, 3]]);
}

#[test]
fn padding_is_cut() {
    for is_v6 in [false, true] {
        let mut all = series(is_v6, &[40, 40, 1]);
        let plain = frames(&all);
        all.iter_mut().for_each(|segment| segment.padding = 9);
        let left = merge(&frames(&all));
        assert_eq!(left.len(), 1);
        assert_eq!(cut(&left[0]), plain);
    }
}

#[test]
fn a_wrong_checksum_goes_on_alone() {
    for is_v6 in [false, true] {
        let all = frames(&series(is_v6, &[500, 500, 500, 500]));
        let (ip, tcp) = (14, if is_v6 { 54 } else { 34 });
        // In the payload, in the checksum itself and, of version 4, in that of the IP header.
        for at in [tcp + 40, tcp + 16, tcp + 531].into_iter().chain((!is_v6).then_some(ip + 10)) {
            for (wrong, expected) in [(0, vec![vec![0], vec![1, 2, 3]]), (2, vec![vec![0, 1], vec![2], vec![3]])] {
                let mut changed = all.clone();
                changed[wrong][at] ^= 1;
                let left = merge(&changed);
                assert_eq!(left.iter().map(|left| left.of.clone()).collect::<Vec<_>>(), expected, "{at}");
                assert_eq!(left.iter().flat_map(cut).collect::<Vec<_>>(), changed);
            }
        }
    }
}

#[test]
fn connections_that_alternate_are_merged_in_their_own_order() {
    let mut all: Vec<Tcp> = Vec::new();
    for round in 0..4 {
        for host in 0..8 {
            let next = if round == 0 { Tcp::new(host % 2 == 1, 300) } else { all[all.len() - 8].next(300) };
            all.push(Tcp { host, ..next });
        }
    }
    let expected: Vec<Vec<usize>> = (0..8).map(|host| (0..4).map(|round| 8 * round + host).collect()).collect();
    assert_eq!(groups(&all), expected);
    // A ninth one closes the oldest.
    all[1] = Tcp { host: 99, ..Tcp::new(false, 300) };
    all[2] = Tcp { host: 98, ..Tcp::new(false, 300) };
    let first = &groups(&all)[0];
    assert!(first[..2] == [0, 8], "{first:?}");
}

#[test]
fn no_frame_passes_another_one_of_its_connection() {
    let all = series(false, &[500, 500, 0, 500, 500]);
    let mut other = all[0].clone();
    other.host = 9;
    let mixed = [&all[0], &other, &all[1], &all[2], &other.next(500), &all[3], &all[4]].map(Clone::clone);
    assert_eq!(groups(&mixed), [vec![0, 2], vec![1, 4], vec![3], vec![5, 6]]);
    // A fragment, options of IP or an extension header, or half a header: it may be of any.
    let frames = frames(&all);
    let (mut fragment, mut options) = (frames[0].clone(), frames[0].clone());
    fragment[20] = 0x20;
    options[14] = 0x46;
    let mut extension = Tcp::new(true, 500).frame();
    extension[20] = 0;
    let half = frames[0][..40].to_vec();
    let tagged = [&[2; 12][..], &[0x81, 0, 0, 1].repeat(3), &frames[0][12..]].concat();
    for unclear in [fragment, options, extension, half, tagged] {
        let burst = [frames[0].clone(), unclear, frames[1].clone()];
        assert_eq!(merge(&burst).len(), 3, "{burst:?}");
    }
    // Those of other protocols are no part of any.
    let mut udp = frames[0].clone();
    udp[23] = 17;
    let mut udp6 = Tcp::new(true, 500).frame();
    udp6[20] = 17;
    let arp = [&[2; 12][..], &[8, 6], &[0; 46]].concat();
    for other in [udp, udp6, arp] {
        let burst = [frames[0].clone(), other, frames[1].clone()];
        assert_eq!(merge(&burst).iter().map(|left| left.of.clone()).collect::<Vec<_>>(), [vec![0, 2], vec![1]]);
    }
}

#[test]
fn frames_that_leave_work_are_left_alone() {
    let all = series(false, &[500; 5]);
    let work = Offload::checksum(34, 16);
    let left = merge_at(&frames(&all), 60, ALL, |index| if index == 2 { work } else { Offload::NONE });
    assert_eq!(left.iter().map(|left| left.of.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2], vec![3, 4]]);
    assert_eq!(left[1].offload, work);
}

#[test]
fn only_what_the_receiver_takes_is_made() {
    let all = [series(false, &[500; 2]), series(true, &[500; 2])].concat();
    let made = |takes| {
        let left = merge_at(&frames(&all), 60, Limits { takes, ..ALL }, |_| Offload::NONE);
        left.iter().map(|left| left.of.len()).collect::<Vec<_>>()
    };
    assert_eq!(made(Offloads::CHECKSUM | Offloads::TCP4), [2, 1, 1]);
    assert_eq!(made(Offloads::CHECKSUM | Offloads::TCP6), [1, 1, 2]);
    assert_eq!(made(Offloads::CHECKSUM | Offloads::UDP), [1; 4]);
}

#[test]
fn frames_in_many_pieces_are_left_alone() {
    let all = frames(&series(false, &[1000; 4]));
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for frame in &all {
        assert!(burst.push_segments(frame.chunks(35).map(Segment::from)));
    }
    // 31 pieces each.
    let left = merged(burst.frames(), Unjudged, ALL);
    assert_eq!(left.iter().map(|left| left.of.clone()).collect::<Vec<_>>(), [[0, 1], [2, 3]]);
    assert_eq!(left.iter().flat_map(cut).collect::<Vec<_>>(), all);
}

/// A step of a connection.
#[derive(Clone, Debug)]
struct Step {
    connection: usize,
    payload: usize,
    change: u8,
    at: prop::sample::Index,
}

fn step() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![6 => Just(400usize), 1 => 0..400usize, 1 => 400..1500usize];
    let change = prop_oneof![12 => Just(0u8), 10 => any::<u8>()];
    (0..10usize, payload, change, any::<prop::sample::Index>()).prop_map(|(connection, payload, change, at)| Step {
        connection,
        payload,
        change,
        at,
    })
}

/// Returns the next frame of a connection, with something wrong, or not.
fn take(connections: &mut [Tcp], step: &Step) -> Vec<u8> {
    let connection = &mut connections[step.connection];
    *connection = connection.next(step.payload);
    let mut this = connection.clone();
    match step.change {
        1 => this.flags |= PSH,
        2 => this.flags |= FIN,
        3 => this.flags ^= step.payload as u8 | 1,
        4 => this.hops -= 1,
        5 => this.window += 1,
        6 => this.id ^= 0x100,
        7 => this.padding = 5,
        8 => this.fragment = 0x2000,
        9 => *connection = connection.next(7),
        10 => this.reserved = 1,
        _ => {}
    }
    let mut frame = this.frame();
    match step.change {
        20..60 => {
            let at = step.at.index(frame.len());
            frame[at] ^= step.change;
        }
        60..70 => frame.truncate(14 + step.at.index(frame.len() - 14)),
        _ => {}
    }
    frame
}

/// Returns a frame without what may change: the padding, and the number of a packet that nobody may fragment.
fn essence(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let mut ip = 14;
    while ip <= frame.len() && frame[ip - 2..ip] == [0x81, 0] {
        ip += 4;
    }
    if ip + 40 > frame.len() {
        return frame;
    }
    let word = |frame: &[u8], at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    match frame[ip - 2..ip + 1] {
        [8, 0, 0x45] => {
            let len = word(&frame, ip + 2);
            frame.truncate(frame.len().min(ip + len.max(20)));
            if naive(&frame[ip..ip + 20]) == 0 && frame[ip + 6] == 0x40 {
                [4, 5, 10, 11].iter().for_each(|at| frame[ip + at] = 0);
            }
        }
        [0x86, 0xdd, _] => {
            let len = ip + 40 + word(&frame, ip + 4);
            frame.truncate(len);
        }
        _ => {}
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 1000 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn any_burst_is_the_same_when_it_is_cut_again(
        steps in prop::collection::vec(step(), 1..=MAX_BURST),
        at in 0..1600usize,
    ) {
        let mut connections: Vec<Tcp> = (0..10)
            .map(|host| Tcp {
                host,
                tags: if host % 3 == 0 { vec![u16::from(host)] } else { Vec::new() },
                fragment: if host < 4 { 0 } else { 0x4000 },
                ..Tcp::new(host % 2 == 1, 400)
            })
            .collect();
        let burst: Vec<Vec<u8>> = steps.iter().map(|step| take(&mut connections, step)).collect();
        let left = merge_at(&burst, at, ALL, |_| Offload::NONE);
        // Each frame is there once, and those of a connection are in order.
        let order: Vec<usize> = left.iter().flat_map(|left| left.of.iter().copied()).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..burst.len()).collect::<Vec<_>>());
        for connection in 0..10 {
            let of = order.iter().filter(|index| steps[**index].connection == connection);
            prop_assert!(of.is_sorted(), "{:?}", left);
        }
        // So are those that go alone, and the messages.
        prop_assert!(left.iter().map(|left| left.of[0]).is_sorted());
        for left in &left {
            let again = cut(left);
            prop_assert_eq!(again.len(), left.of.len());
            for (again, index) in again.iter().zip(&left.of) {
                prop_assert_eq!(essence(again), essence(&burst[*index]));
            }
        }
    }

    #[test]
    fn no_burst_causes_a_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 1..=MAX_BURST),
        kind in 0..3usize,
    ) {
        let mut frames = frames;
        for frame in frames.iter_mut().filter(|frame| frame.len() > 40) {
            match kind {
                0 => frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]),
                1 => frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]),
                _ => {}
            }
            frame[if kind == 0 { 23 } else { 20 }] = 6;
        }
        let left = merge(&frames);
        prop_assert_eq!(left.iter().map(|left| left.of.len()).sum::<usize>(), frames.len());
    }
}
