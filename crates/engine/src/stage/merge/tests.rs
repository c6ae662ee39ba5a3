//! Tests of what comes to a queue before which segments are merged, and of what is counted.

use super::*;
use crate::drops::Drops;
use crate::port::frames::to_vec;
use crate::stage::complete::tests::{Described, message, segments};
use packet::offload::Offload;
use packet::{Headers, MAX_FRAME};
use std::sync::Mutex;

/// A receiver with room for so many bytes of each burst.
#[derive(Clone)]
struct Receiver {
    takes: Offloads,
    longest: u32,
    room: u32,
    /// Length of frames that are too long for it.
    too_long: u32,
    got: Arc<Mutex<Vec<Described>>>,
    /// Whether frames lay in one run of bytes.
    contiguous: Arc<Mutex<Vec<bool>>>,
}

impl Receiver {
    fn new() -> Receiver {
        let (got, contiguous) = Default::default();
        Receiver { takes: Offloads::ALL, longest: MAX_FRAME, room: u32::MAX, too_long: u32::MAX, got, contiguous }
    }

    fn deliver<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        let (mut sent, mut room) = (Sent { rest: Some(Reason::NoBuffers), ..Sent::default() }, self.room);
        for (index, frame) in frames.as_slice().iter().enumerate() {
            if frame.len() >= self.too_long {
                sent.too_long += 1;
                continue;
            }
            let Some(left) = room.checked_sub(frame.len()) else { break };
            room = left;
            let mut bytes = to_vec(&frames, frame);
            let taken = taken.taken(index);
            bytes[..taken.len()].copy_from_slice(taken);
            self.got.lock().unwrap().push((bytes, frame.offload()));
            self.contiguous.lock().unwrap().push(frame.is_contiguous());
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        sent
    }

    fn take(&self) -> Vec<Described> {
        std::mem::take(&mut *self.got.lock().unwrap())
    }
}

impl TxQueue for Receiver {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.deliver(frames, Unjudged)
    }

    fn transmit_judged(&self, judged: Judged<'_>, _: &mut BurstStorage) -> Sent {
        match judged.taken() {
            Kind::Headers(taken) => self.deliver(judged.frames(), taken),
            Kind::Heads(taken) => self.deliver(judged.frames(), taken),
        }
    }

    fn takes(&self) -> Offloads {
        self.takes
    }

    fn longest_merged(&self) -> u32 {
        self.longest
    }
}

/// How frames come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Unjudged,
    Headers,
    Heads,
}

const WAYS: [Way; 3] = [Way::Unjudged, Way::Headers, Way::Heads];

/// Sends frames in one burst. Returns what became of them, the drops, and how many were merged into how many messages.
fn send(receiver: &Receiver, frames: &[Vec<u8>], way: Way) -> (Sent, Vec<(String, u64)>, [u64; 2]) {
    let counters = Arc::<QueueCounters>::default();
    let half = before(Box::new(receiver.clone()), &counters);
    let (mut storage, mut room) = (Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
    let mut burst = storage.start();
    frames.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
    let (mut headers, mut heads) = (Headers::default(), Box::default());
    let sent = match way {
        Way::Unjudged => half.transmit(burst.frames()),
        Way::Headers => {
            let mut judging = burst.frames().judge(&mut headers);
            judging.by_ref().for_each(drop);
            half.transmit_judged(judging.end(), &mut room)
        }
        Way::Heads => half.transmit_judged(burst.frames().judge_heads(&mut heads), &mut room),
    };
    let drops = Drops::default();
    sent.count_drops(frames.len(), &drops);
    (sent, drops.named().into_iter().collect(), [counters.merged.get(), counters.messages.get()])
}

fn other() -> Vec<u8> {
    [&[2; 12][..], &[8, 6], &[7; 300]].concat()
}

#[test]
fn segments_come_as_the_message_that_they_were() {
    for way in WAYS {
        let mut frames = segments(20_000, 1448);
        frames.insert(1, other());
        let receiver = Receiver::new();
        let (sent, drops, counts) = send(&receiver, &frames, way);
        assert_eq!((sent.frames, sent.passed_on, drops, counts), (15, 0, vec![], [14, 1]));
        let got = receiver.take();
        assert_eq!(got, [message(20_000, 1448), (other(), Offload::NONE)]);
        assert_eq!(sent.bytes, got.iter().map(|(frame, _)| frame.len() as u64).sum::<u64>());
        // Who goes alone lies as it did, unless the head that was taken of it is longer than what a sender puts in its place.
        assert_eq!(*receiver.contiguous.lock().unwrap(), [false, way != Way::Heads]);
    }
}

#[test]
fn who_takes_no_messages_of_tcp_gets_all_as_it_came() {
    let frames = segments(5000, 1000);
    let all: Vec<_> = frames.iter().map(|frame| (frame.clone(), Offload::NONE)).collect();
    let others = [
        Receiver { takes: Offloads::NONE, ..Receiver::new() },
        Receiver { takes: Offloads::CHECKSUM | Offloads::UDP, ..Receiver::new() },
        Receiver { takes: Offloads::CHECKSUM | Offloads::TCP6, ..Receiver::new() },
        Receiver { longest: 0, ..Receiver::new() },
        Receiver { longest: 1100, ..Receiver::new() },
    ];
    for receiver in others {
        for way in WAYS {
            let (sent, drops, counts) = send(&receiver, &frames, way);
            assert_eq!((sent.frames, drops, counts), (5, vec![], [0, 0]));
            assert_eq!(receiver.take(), all);
        }
    }
}

#[test]
fn frames_of_a_message_without_room_go_as_far_as_they_have() {
    for way in WAYS {
        let mut frames = segments(3000, 1000);
        frames.splice(
            1..1,
            segments(1500, 500).into_iter().map(|mut frame| {
                // Another connection.
                frame[12 + 2 + 20] ^= 0x80;
                frame[12 + 2 + 20 + 16] ^= 0x80;
                frame
            }),
        );
        let receiver = Receiver { room: 3500, ..Receiver::new() };
        let (sent, drops, counts) = send(&receiver, &frames, way);
        // A message of 3054 bytes, and as there is no room for one of 1554, three frames of 554 instead, in a burst of their own.
        assert_eq!((sent.frames, drops, counts), (6, vec![], [3, 1]), "{way:?}");
        let got = receiver.take();
        assert_eq!(got.iter().map(|(frame, _)| frame.len()).collect::<Vec<_>>(), [3054, 554, 554, 554]);
        assert!(got[1..].iter().zip(&frames[1..4]).all(|((got, work), frame)| got == frame && work.is_none()));
        let receiver = Receiver { room: 1200, ..Receiver::new() };
        let (sent, drops, counts) = send(&receiver, &frames, way);
        assert_eq!((sent.frames, drops, counts), (1, vec![("no-buffers".to_owned(), 5)], [0, 0]), "{way:?}");
    }
}

#[test]
fn a_lost_message_counts_as_its_frames() {
    let mut frames = segments(3000, 1000);
    frames.push(other());
    let receiver = Receiver { too_long: 3000, ..Receiver::new() };
    let (sent, drops, counts) = send(&receiver, &frames, Way::Headers);
    assert_eq!((sent.frames, drops, counts), (1, vec![("too-long".to_owned(), 3)], [0, 0]));
    let units = [3, 1, 5, 1, 2].map(|frames| Unit { frames, ..Unit::default() });
    let sent = Sent { frames: 1, too_long: 1, refused: 1, counted: 1, ..Sent::default() };
    let outcome = Outcome::of(&units, sent);
    // Of the first four, the longest was too long, and the next one refused.
    let Sent { frames, too_long, refused, counted, .. } = outcome.sent;
    assert_eq!((frames, too_long, refused, counted), (1, 5, 3, 1));
    assert_eq!((outcome.merged, outcome.unsent.len()), (0, 1));
}

#[test]
fn merging_is_put_before_a_half_once() {
    let counters = Arc::default();
    let half = before(before(Box::new(Receiver::new()), &counters), &counters);
    assert_eq!((half.takes(), half.longest_merged()), (Offloads::ALL, 0));
}
