//! Tests of what frames that leave work meet on their way to a queue.

use super::*;
use crate::port::frames::to_vec;
use crate::stage::complete::tests::{Described, unfinished_tcp};
use packet::offload::{Layers, Offload};
use packet::{Segment, unfinished};
use std::sync::{Arc, Mutex};

/// A device that does checksums, as network cards do.
struct Card(Got);

type Got = Arc<Mutex<Vec<Described>>>;

impl TxQueue for Card {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let got = frames.as_slice().iter().map(|frame| (to_vec(&frames, frame), frame.offload()));
        self.0.lock().unwrap().extend(got);
        Sent { frames: frames.len() as u32, ..Sent::default() }
    }

    fn takes(&self) -> Offloads {
        Offloads::CHECKSUM
    }

    fn takes_from(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> bool {
        Layers::of(&to_vec(frames, frame), frame.len(), frame.offload()).is_some()
    }
}

/// Sends frames to a card. Returns what came there.
fn sent(frames: &[Described]) -> (Sent, Vec<Described>) {
    let (got, mut storage) = (Got::default(), Box::<BurstStorage>::default());
    let mut burst = storage.start();
    for (frame, offload) in frames {
        burst.push(Segment::from(&frame[..]));
        burst.leave(*offload);
    }
    let egress = Egress::new(Box::new(Card(got.clone())));
    let sent = egress.transmit(Outgoing::Frames(burst.frames()), false, &Stopwatch::default());
    let got = std::mem::take(&mut *got.lock().unwrap());
    (sent, got)
}

#[test]
fn work_of_a_kind_that_a_device_does_not_know_is_done_for_it() {
    let known = [unfinished_tcp(100), unfinished_tcp(7)];
    let (outcome, got) = sent(&known);
    assert_eq!((outcome.passed_on, outcome.completed), (2, 0));
    assert_eq!(got, known);

    // One in the payload, as of a packet in a tunnel: the frame's own is finished already.
    let (frame, _) = unfinished_tcp(200);
    let inner = (frame, Offload::checksum(80, 16));
    let (outcome, got) = sent(&[known[0].clone(), inner.clone(), known[1].clone()]);
    assert_eq!((outcome.frames, outcome.passed_on, outcome.completed, outcome.bad_offload), (3, 2, 1, 0));
    assert_eq!((&got[0], &got[2]), (&known[0], &known[1]));
    let (changed, offload) = &got[1];
    assert!(offload.is_none());
    let differ: Vec<_> = (0..changed.len()).filter(|&at| changed[at] != inner.0[at]).collect();
    let patch = unfinished::as_asked(std::iter::once(Segment::from(&inner.0[..])), 80, 16).unwrap();
    assert_eq!(changed[96..98], *patch.bytes());
    assert!(!differ.is_empty() && differ.iter().all(|at| (96..98).contains(at)), "{differ:?}");
}
