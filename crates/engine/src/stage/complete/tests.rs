//! Tests that a receiver that can't do what frames need gets frames that need nothing.

use super::Completer;
use crate::drops::{Drops, Reason};
use crate::port::Sent;
use crate::port::frames::to_vec;
use packet::checksum;
use packet::offload::{Cut, Message, Offload, Offloads, Work};
use packet::{BurstStorage, Frame, Frames, MAX_BURST, MAX_BURST_BYTES, Segment, unfinished};
use proptest::prelude::*;

/// Length of the headers of these frames.
const TCP: usize = 14 + 20 + 20;
const UDP: usize = 14 + 40 + 8;

/// A frame and its description.
pub(in crate::stage) type Described = (Vec<u8>, Offload);

/// Returns a frame of TCP in IPv4 whose checksum is the sum of the pseudo-header.
fn tcp(payload: usize) -> Vec<u8> {
    let len = (20 + payload) as u16;
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &(20 + len).to_be_bytes()].concat();
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let pseudo = !checksum::of(&[&frame[26..34], &[0, 6], &len.to_be_bytes()].concat());
    frame.extend([0, 80, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x18, 2, 0]);
    frame.extend(pseudo.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|at| (at * 11 + at / 256) as u8));
    frame
}

/// The same of UDP in IPv6.
fn udp(payload: usize) -> Vec<u8> {
    let len = (8 + payload) as u16;
    let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0], &len.to_be_bytes(), &[17, 64], &[0xfd; 32]].concat();
    let pseudo = !checksum::of(&[&frame[22..54], &[0, 17], &len.to_be_bytes()].concat());
    frame.extend([0, 53, 0x30, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend(pseudo.to_be_bytes());
    frame.extend((0..payload).map(|at| (at * 13 + at / 256) as u8));
    frame
}

fn whole(payload: usize) -> Described {
    let mut frame = tcp(payload);
    let patch = unfinished::as_asked([Segment::from(&frame[..])].into_iter(), 34, 16).unwrap();
    patch.apply(&mut frame);
    (frame, Offload::NONE)
}

pub(in crate::stage) fn unfinished_tcp(payload: usize) -> Described {
    (tcp(payload), Offload::checksum(34, 16))
}

pub(in crate::stage) fn message(payload: usize, size: u16) -> Described {
    (tcp(payload), Offload::cut(Cut { message: Message::Tcp4, size, start: 34, header: 20, ecn: false }).unwrap())
}

/// Returns the segments of a message, as they are sent to a receiver that takes complete frames only.
pub(in crate::stage) fn segments(payload: usize, size: u16) -> Vec<Vec<u8>> {
    let mut receiver = Receiver::new(Offloads::NONE);
    receiver.send(&[message(payload, size)], 1_000_000);
    receiver.got.into_iter().map(|(frame, _)| frame).collect()
}

fn datagrams(payload: usize, size: u16) -> Described {
    (udp(payload), Offload::cut(Cut { message: Message::Udp, size, start: 54, header: 8, ecn: false }).unwrap())
}

/// A receiver, and what becomes of frames there.
struct Receiver {
    can: Offloads,
    /// Length of frames whose work it does not do for all that.
    except: usize,
    /// Number of frames that it takes of each burst; it is busy for others.
    takes: usize,
    /// Number of frames that it holds of each burst instead.
    holds: usize,
    got: Vec<Described>,
    bursts: Vec<usize>,
}

impl Receiver {
    fn new(can: Offloads) -> Receiver {
        Receiver { can, except: 0, takes: MAX_BURST, holds: 0, got: Vec::new(), bursts: Vec::new() }
    }

    fn transmit(&mut self, frames: Frames<'_>) -> Sent {
        assert!(!frames.is_empty() && frames.len() <= MAX_BURST && self.can.has(frames.offloads()));
        self.bursts.push(frames.len());
        let mut sent = Sent { rest: Some(Reason::Busy), held: self.holds.min(frames.len()) as i32, ..Sent::default() };
        for frame in frames.as_slice()[sent.held as usize..].iter().take(self.takes) {
            self.got.push((to_vec(&frames, frame), frame.offload()));
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        sent
    }

    /// Sends frames, which lie in pieces of this length. Returns what became of them, and the drops.
    fn send(&mut self, frames: &[Described], piece: usize) -> (Sent, Vec<(String, u64)>) {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for (frame, offload) in frames {
            assert!(burst.push_segments(frame.chunks(piece).map(Segment::from)));
            burst.leave(*offload);
        }
        let (can, except) = (self.can, self.except);
        let taken =
            |_: &Frames<'_>, frame: &Frame<'_>| can.has(frame.offload().needs()) && frame.len() as usize != except;
        let sent = Completer::default().complete(burst.frames(), &taken, |frames| self.transmit(frames));
        let drops = Drops::default();
        sent.count_drops(frames.len(), &drops);
        (sent, drops.named().into_iter().collect())
    }
}

/// Checks that a frame is complete, and returns its payload.
fn payload(frame: &[u8]) -> &[u8] {
    assert_eq!(unfinished::renew([Segment::from(frame)].into_iter()), None, "a checksum is wrong");
    match frame[12] {
        8 => {
            assert_eq!(checksum::of(&frame[14..34]), 0);
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), frame.len() - 14);
            &frame[TCP..]
        }
        _ => &frame[UDP..],
    }
}

#[test]
fn frames_stay_as_they_are_for_who_can_do_what_they_need() {
    let frames = [whole(10), unfinished_tcp(100), message(3000, 1000), datagrams(500, 100)];
    let mut receiver = Receiver::new(Offloads::ALL);
    let (sent, drops) = receiver.send(&frames, 700);
    assert_eq!((receiver.got, receiver.bursts, sent.frames, drops), (frames.to_vec(), vec![4], 4, vec![]));
}

#[test]
fn who_can_do_nothing_gets_complete_frames_in_order() {
    let frames =
        [unfinished_tcp(100), whole(10), message(2500, 1000), whole(11), datagrams(250, 100), unfinished_tcp(60_000)];
    for piece in [67, 1_000_000] {
        let mut receiver = Receiver::new(Offloads::NONE);
        let (sent, drops) = receiver.send(&frames, piece);
        assert_eq!((sent.frames, sent.completed, sent.passed_on, drops), (6, 4, 0, vec![]));
        let lengths: Vec<_> = receiver.got.iter().map(|(frame, _)| payload(frame).len()).collect();
        assert_eq!(lengths, [100, 10, 1000, 1000, 500, 11, 100, 100, 50, 60_000]);
        assert_eq!(receiver.bursts, [2, 3, 1, 3, 1]);
        assert_eq!(sent.bytes, receiver.got.iter().map(|(frame, _)| frame.len() as u64).sum::<u64>());
        assert!(receiver.got.iter().all(|(_, offload)| offload.is_none()));
        let joined: Vec<u8> = receiver.got[2..5].iter().flat_map(|(frame, _)| payload(frame)).copied().collect();
        assert_eq!(joined, frames[2].0[TCP..]);
    }
}

#[test]
fn who_only_finishes_checksums_gets_complete_segments() {
    let mut receiver = Receiver::new(Offloads::CHECKSUM | Offloads::TCP6);
    let frames = [unfinished_tcp(100), message(200, 100), unfinished_tcp(10)];
    let (sent, _) = receiver.send(&frames, 1000);
    let works: Vec<_> = receiver.got.iter().map(|(_, offload)| offload.work()).collect();
    let left = Work::Checksum { start: 34, offset: 16 };
    assert_eq!((sent.frames, works), (3, vec![left, Work::Nothing, Work::Nothing, left]));
    assert_eq!((sent.completed, sent.passed_on), (1, 2));
    assert_eq!((&receiver.got[0], &receiver.got[3]), (&frames[0], &frames[2]));
    assert_eq!([1, 2].map(|index| payload(&receiver.got[index].0).len()), [100, 100]);
}

#[test]
fn a_frame_that_the_receiver_does_not_take_is_completed_and_others_are_not() {
    let frames = [unfinished_tcp(100), unfinished_tcp(200), message(3000, 1000), message(200, 100)];
    let mut receiver = Receiver { except: TCP + 200, ..Receiver::new(Offloads::ALL) };
    let (sent, drops) = receiver.send(&frames, 700);
    assert_eq!((sent.frames, sent.completed, sent.passed_on, drops), (4, 2, 2, vec![]));
    let whole = |index: usize| receiver.got[index].1.is_none().then(|| payload(&receiver.got[index].0).len());
    assert_eq!([1, 3, 4].map(whole), [Some(200), Some(100), Some(100)]);
    assert_eq!([0, 2].map(|index| receiver.got[index] == frames[index]), [true; 2]);
}

#[test]
fn the_longest_messages_go_in_bursts_of_usual_length() {
    for size in [32, 1448, 9000, 65_000] {
        let long = message(65_535 - 40, size);
        let mut receiver = Receiver::new(Offloads::NONE);
        let (sent, drops) = receiver.send(std::slice::from_ref(&long), 4096);
        assert_eq!((sent.frames, drops), (1, vec![]));
        let joined: Vec<u8> = receiver.got.iter().flat_map(|(frame, _)| payload(frame)).copied().collect();
        assert!(joined == long.0[TCP..], "the payload of segments of {size} bytes");
        let most = (MAX_BURST_BYTES as usize).div_ceil(TCP + usize::from(size)).min(MAX_BURST);
        assert!(receiver.bursts.iter().all(|burst| *burst <= most));
    }
}

#[test]
fn a_message_in_many_pieces_is_cut_all_the_same() {
    for (piece, size) in [(65, 60_000), (65, 2000), (1, 500)] {
        let long = message(if piece == 1 { 970 } else { 65_000 }, size);
        let mut receiver = Receiver::new(Offloads::NONE);
        let (sent, drops) = receiver.send(std::slice::from_ref(&long), piece);
        assert_eq!((sent.frames, drops), (1, vec![]));
        let joined: Vec<u8> = receiver.got.iter().flat_map(|(frame, _)| payload(frame)).copied().collect();
        assert!(joined == long.0[TCP..], "pieces of {piece} bytes");
    }
}

#[test]
fn descriptions_that_do_not_fit_are_drops_of_their_own_reason() {
    let mut changed = message(3000, 1000);
    changed.0[20] = 0x20;
    let outside = (tcp(10), Offload::checksum(60, 16));
    let frames = [whole(1), changed, whole(2), outside, unfinished_tcp(3)];
    let mut receiver = Receiver::new(Offloads::NONE);
    let (sent, drops) = receiver.send(&frames, 1000);
    assert_eq!((sent.frames, sent.bad_offload, drops), (3, 2, vec![("bad-offload".to_owned(), 2)]));
    assert_eq!(receiver.got.iter().map(|(frame, _)| payload(frame).len()).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn held_segments_make_a_held_message() {
    let mut receiver = Receiver { holds: 2, ..Receiver::new(Offloads::NONE) };
    let (sent, drops) = receiver.send(&[message(300, 100)], 1000);
    assert_eq!((sent.frames, sent.held, drops), (0, 1, vec![]));
    // Two frames that were held before leave with the three segments; then with no segment at all.
    let segments = Sent { frames: 5, bytes: 900, held: -2, ..Sent::default() };
    assert_eq!(super::of_message(3, segments), Sent { frames: 3, completed: 1, ..segments });
    let none = Sent { frames: 2, bytes: 400, held: -2, refused: 3, ..Sent::default() };
    assert_eq!(super::of_message(3, none), Sent { refused: 1, ..none });
}

#[test]
fn a_message_that_lost_a_segment_is_a_drop() {
    for (takes, sent_frames) in [(2, 1), (3, 2)] {
        let mut receiver = Receiver { takes, ..Receiver::new(Offloads::NONE) };
        let (sent, drops) = receiver.send(&[whole(1), message(300, 100)], 1000);
        let lost = if sent_frames == 1 { vec![("busy".to_owned(), 1)] } else { vec![] };
        assert_eq!((sent.frames, drops), (sent_frames, lost));
        assert_eq!(receiver.got.len(), 1 + takes.min(3));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn each_frame_is_counted_once(
        kinds in prop::collection::vec((0..4usize, 1..3000usize, 32..600u16), 1..=MAX_BURST),
        takes in 0..=MAX_BURST,
        piece in 200..2000usize,
        can in prop::sample::select(vec![Offloads::NONE, Offloads::CHECKSUM, Offloads::CHECKSUM | Offloads::TCP4]),
    ) {
        let frames: Vec<Described> = kinds.into_iter().map(|(kind, payload, size)| match kind {
            0 => whole(payload),
            1 => unfinished_tcp(payload),
            2 => message(payload + usize::from(size), size),
            _ => datagrams(payload + usize::from(size), size),
        }).collect();
        let mut receiver = Receiver { takes, ..Receiver::new(can) };
        let (sent, drops) = receiver.send(&frames, piece);
        let dropped: u64 = drops.iter().map(|(_, count)| count).sum();
        prop_assert!(drops.iter().all(|(name, _)| name == "busy"));
        prop_assert_eq!(u64::from(sent.frames) + dropped, frames.len() as u64);
        prop_assert_eq!(sent.bytes, receiver.got.iter().map(|(frame, _)| frame.len() as u64).sum::<u64>());
        if takes == MAX_BURST {
            prop_assert_eq!(dropped, 0);
        }
        for (frame, offload) in &receiver.got {
            if offload.is_none() {
                payload(frame);
            }
        }
    }
}
