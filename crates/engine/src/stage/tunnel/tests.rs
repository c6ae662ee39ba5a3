//! Tests that frames sent by one end come out at the other, however they are cut.

use super::{Decapsulate, Encapsulate};
use crate::answers::Answers;
use crate::drops::Drops;
use crate::port::frames::to_vec;
use crate::port::{Sent, TxQueue};
use crate::stage::egress::{Egress, Outgoing};
use crate::stage::ingress::{IngressStage, IngressStages};
use crate::stage::stopwatch::Stopwatch;
use handover::EventNotifier;
use packet::MacAddr;
use packet::{BurstStorage, Frames, MAX_BURST, MAX_SEGMENTS, Segment};
use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

type Wire = Arc<Mutex<Vec<Vec<u8>>>>;

/// Accepts this many frames of each burst.
struct Link(Wire, usize);

impl TxQueue for Link {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        for frame in frames.as_slice().iter().take(self.1) {
            let mut bytes = vec![0; frame.len() as usize];
            assert_eq!(frames.copy_to(frame, &mut bytes), bytes.len());
            sent.frames += 1;
            sent.bytes += bytes.len() as u64;
            self.0.lock().unwrap().push(bytes);
        }
        sent
    }
}

fn end(from: u8, to: u8, mtu: u16, checksum: Checksum) -> TunnelEnd {
    let addresses = Addresses::V4 { source: [192, 0, 2, from].into(), destination: [192, 0, 2, to].into() };
    let [source, destination] = [from, to].map(|host| MacAddr([2, 0, 0, 0, 0, host]));
    let endpoints = Endpoints { source, destination, addresses, port: 4789, vni: 100, hop_limit: 64, checksum };
    TunnelEnd::new(&endpoints, mtu).unwrap()
}

/// Sends a burst of frames that are cut into pieces of `cut` bytes. Those that do not fit are counted.
fn send(mtu: u16, checksum: Checksum, most: usize, frames: &[Vec<u8>], cut: usize) -> (Vec<Vec<u8>>, Sent) {
    let wire = Wire::default();
    let drops = Arc::new(Drops::default());
    let encapsulate = Encapsulate::new(Arc::new(end(1, 2, mtu, checksum)), drops.clone());
    let port = Egress::of(Box::new(Link(wire.clone(), most)), [Box::new(encapsulate) as Box<_>]);
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for frame in frames {
        assert!(burst.push_segments(frame.chunks(cut).map(Segment::from)));
    }
    let sent = port.transmit(Outgoing::Frames(burst.frames()), false, &Stopwatch::default());
    let wire = std::mem::take(&mut *wire.lock().unwrap());
    assert_eq!(drops.named().get("too-long").copied().unwrap_or(0), u64::from(sent.counted));
    (wire, sent)
}

/// Returns the frames inside these, which are cut likewise.
fn receive(frames: &[Vec<u8>], cut: usize, drops: &Arc<Drops>) -> Vec<Vec<u8>> {
    let neighbours = Arc::new(Answers::new(1, crate::neighbour::RING, Arc::new(EventNotifier::new().unwrap())));
    neighbours.prepare(0);
    receive_by(&neighbours, frames, cut, drops)
}

fn receive_by(neighbours: &Arc<Answers>, frames: &[Vec<u8>], cut: usize, drops: &Arc<Drops>) -> Vec<Vec<u8>> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for frame in frames {
        assert!(burst.push_segments(frame.chunks(cut).map(Segment::from)));
    }
    let end = Arc::new(end(2, 1, 1500, Checksum::Zero));
    let decapsulate = Decapsulate::new(end, neighbours.clone(), drops.clone(), 0);
    let port: IngressStages = [Box::new(decapsulate) as Box<dyn IngressStage>].into_iter().collect();
    let mut inside = Vec::new();
    port.process(&mut burst, &Stopwatch::default(), &mut |burst| {
        let frames = burst.frames();
        inside.extend(frames.as_slice().iter().map(|frame| to_vec(&frames, frame)));
    });
    inside
}

proptest! {
    #[test]
    fn frames_leave_the_tunnel_as_they_entered_it(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..300), 0..=MAX_BURST),
        cuts in (17usize..400, 17usize..400),
        checksum in prop_oneof![Just(Checksum::Zero), Just(Checksum::Computed)],
    ) {
        let (wire, sent) = send(1500, checksum, MAX_BURST, &frames, cuts.0);
        prop_assert_eq!((sent.frames as usize, sent.counted), (frames.len(), 0));
        prop_assert_eq!(sent.bytes as usize, frames.iter().map(Vec::len).sum::<usize>(), "bytes of what is inside");
        let drops = Arc::new(Drops::default());
        prop_assert_eq!(receive(&wire, cuts.1, &drops), frames);
        prop_assert!(drops.named().is_empty());
    }
}

#[test]
fn frames_beyond_the_mtu_are_too_long() {
    let frames: Vec<Vec<u8>> = [464, 465, 60, 1500].map(|len| vec![7; len]).into();
    let (wire, sent) = send(500, Checksum::Zero, MAX_BURST, &frames, 5000);
    assert_eq!((sent.frames, sent.counted, sent.bytes), (2, 2, 524));
    assert_eq!(wire.iter().map(Vec::len).collect::<Vec<_>>(), [514, 110]);
    assert!(wire.iter().all(|frame| frame[20] == 0x40), "don't fragment");
    let drops = Arc::new(Drops::default());
    sent.count_drops(frames.len(), &drops);
    assert!(drops.named().is_empty(), "they are counted already");
}

#[test]
fn frames_that_the_link_refuses_are_not_sent() {
    let frames = vec![vec![7; 60]; 4];
    let (_, sent) = send(1500, Checksum::Zero, 3, &frames, 5000);
    assert_eq!((sent.frames, sent.bytes, sent.counted), (3, 180, 0));
}

#[test]
fn frames_in_too_many_pieces_are_dropped() {
    let frames = vec![vec![7; 70]; MAX_SEGMENTS / 70];
    let (wire, sent) = send(1500, Checksum::Zero, MAX_BURST, &frames, 1);
    assert_eq!((sent.frames, sent.counted), (14, 0));
    assert_eq!(wire.len(), 14);
    // One more segment each: the last frames have no room.
    let frames = vec![vec![7; 32]; MAX_BURST];
    let (wire, sent) = send(1500, Checksum::Zero, MAX_BURST, &frames, 1);
    assert_eq!((sent.frames as usize, sent.counted), (wire.len(), (MAX_BURST - wire.len()) as u32));
}

#[test]
fn frames_of_other_tunnels_are_dropped_with_a_reason() {
    let frames = vec![vec![7; 60]; 5];
    let (mut wire, _) = send(1500, Checksum::Zero, MAX_BURST, &frames, 5000);
    wire[0][12] = 0x86;
    wire[1][48] = 101;
    wire[2][24] ^= 1;
    wire[3].pop();
    wire[4].push(0);
    let drops = Arc::new(Drops::default());
    assert_eq!(receive(&wire, 5000, &drops), [vec![7; 60]]);
    let reasons = ["not-tunnel", "other-vni", "bad-ip-checksum", "truncated"];
    assert_eq!(drops.named(), reasons.map(|reason| (reason.to_owned(), 1)).into());
}

#[test]
fn requests_for_this_end_are_answered() {
    let asks = |target: u8| {
        let (asker, request) = ([2, 0, 0, 0, 0, 9], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        [&[0xff; 6][..], &asker, &request, &asker, &[192, 0, 2, 9], &[0; 6], &[192, 0, 2, target]].concat()
    };
    let (neighbours, drops) = (
        Arc::new(Answers::new(1, crate::neighbour::RING, Arc::new(EventNotifier::new().unwrap()))),
        Arc::new(Drops::default()),
    );
    neighbours.prepare(0);
    // This end has address 2; 1 is the other end.
    assert!(receive_by(&neighbours, &[asks(2), asks(1)], 5000, &drops).is_empty());
    assert_eq!(drops.named(), [("not-tunnel".to_owned(), 1)].into());
    let answers: Vec<_> = neighbours.drain().flat_map(|(_, answers)| answers).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][20..32], [0, 2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 2]);
}
