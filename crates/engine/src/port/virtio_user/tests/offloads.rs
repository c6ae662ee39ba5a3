//! Tests of work that either side leaves to the other, in both formats of rings.

use crate::drops::{Drops, Reason};
use crate::port::frames::to_vec;
use crate::port::virtio_user::{LEAD, LONGEST, QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use crate::port::{RxQueue, Sent, TxQueue};
use packet::offload::{Cut, Message, Offload, Offloads, header};
use packet::{BurstStorage, HEAD, MAX_BURST_BYTES, Segment, unfinished};
use proptest::prelude::*;
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features, offload};

/// The longest payload of a message.
const LONG: usize = 65_535 - 40;

const CHECKSUM: Offload = Offload::checksum(34, 16);

/// A frame and its description.
type Described = (Vec<u8>, Offload);

/// Returns a frame of TCP in IPv4.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &(40 + payload as u16).to_be_bytes()].concat();
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x18, 2, 0, 1, 2, 0, 0]);
    frame.extend((0..payload).map(|at| (at * 11 + at / 256) as u8 | 1));
    frame
}

fn cut(size: u16, ecn: bool) -> Offload {
    Offload::cut(Cut { message: Message::Tcp4, size, start: 34, header: 20, ecn }).unwrap()
}

fn formats() -> [u64; 4] {
    [0, features::IN_ORDER, features::RING_PACKED, features::RING_PACKED | features::IN_ORDER]
}

/// A port, and a device that may have been told of more offloads.
struct Rig {
    transmit: VirtioTransmit,
    receive: VirtioReceive,
    from: Dequeue,
    to: Enqueue,
    arena: Arc<Arena>,
    size: u16,
    /// Addresses of the buffers to receive into, and of those to send from.
    places: [u64; 2],
    drops: Arc<Drops>,
}

impl Rig {
    fn new(size: u16, format: u64, [port, device]: [Offloads; 2]) -> Rig {
        let mut arena = Arena::new(8 << 20, false).unwrap();
        let with = |work| Negotiated(features::VERSION_1 | features::MRG_RXBUF | format | offload::features(work));
        let rings = [(); 2].map(|()| Queue::layout(&mut arena, size, with(port)).unwrap());
        let places = [(); 2].map(|()| arena.allocate(u64::from(size) * u64::from(STRIDE), 4096).unwrap());
        let arena = Arc::new(arena);
        let drops = Arc::<Drops>::default();
        let end = |ring: QueueConfig, buffers| {
            let queue = QueueEnd::create(Queue::new(&arena, &ring).unwrap(), ring).unwrap();
            QueueResources { queue, buffers, arena: arena.clone(), broken: Arc::default(), drops: drops.clone() }
        };
        let [at_device, from] = rings.map(|ring| QueueConfig { negotiated: with(device), ..ring });
        Rig {
            receive: VirtioReceive::new(end(rings[0], places[0]), true, None, 0),
            transmit: VirtioTransmit::new(end(rings[1], places[1]), None),
            to: Enqueue::new(arena.memory().clone(), &at_device).unwrap(),
            from: Dequeue::new(arena.memory().clone(), &from).unwrap(),
            arena,
            size,
            places,
            drops,
        }
    }

    /// Both sides have the same offloads.
    fn of(size: u16, format: u64, work: Offloads) -> Rig {
        Rig::new(size, format, [work; 2])
    }

    /// Sends a frame in pieces of this length.
    fn send(&self, (frame, left): &Described, piece: usize) -> Sent {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        assert!(burst.push_segments(frame.chunks(piece).map(Segment::from)));
        burst.leave(*left);
        self.transmit.transmit(burst.frames())
    }

    /// Makes the device take all frames.
    fn taken(&self) -> Vec<Described> {
        let (mut storage, mut taken) = (Box::<BurstStorage>::default(), Vec::new());
        while self.from.has_work() {
            let mut burst = storage.start();
            let chains = self.from.receive(&mut burst).unwrap();
            self.from.read_headers(&mut burst, 0);
            assert_eq!(chains, burst.len(), "the device refuses none");
            let frames = burst.frames();
            taken.extend(frames.as_slice().iter().map(|frame| (to_vec(&frames, frame), frame.offload())));
            self.from.recycle();
        }
        taken
    }

    /// Makes the device send a frame.
    fn leave(&self, (frame, left): &Described) -> bool {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        burst.push(Segment::from(&frame[..]));
        burst.leave(*left);
        self.to.transmit(burst.frames()).unwrap().frames == 1
    }

    /// Receives a burst.
    fn received(&self) -> Vec<Described> {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        self.receive.receive(&mut burst);
        let frames = burst.frames();
        let received = frames.as_slice().iter().map(|frame| (to_vec(&frames, frame), frame.offload())).collect();
        self.receive.recycle();
        received
    }

    /// Returns the header of a buffer to send from.
    fn header(&self, index: u16) -> [u8; NET_HEADER as usize] {
        let at = self.places[1] + u64::from(index) * u64::from(STRIDE) + u64::from(LEAD);
        self.arena.segment(at, NET_HEADER).unwrap().read().unwrap()
    }

    /// Receives a frame as the first one, after the device has put these bytes at the start of its header.
    fn received_with(&self, frame: &[u8], header: [u8; header::LEN]) -> Vec<Described> {
        assert!(self.leave(&(frame.to_vec(), Offload::NONE)));
        let at = self.places[0] + u64::from(LEAD);
        self.arena.gather(at, std::iter::once(Segment::from(&header[..])));
        self.received()
    }

    fn bad(&self) -> u64 {
        self.drops.named().get("bad-offload").copied().unwrap_or(0)
    }
}

#[test]
fn messages_and_checksums_pass_both_ways() {
    for format in formats() {
        let rig = Rig::of(256, format, Offloads::ALL);
        assert_eq!(rig.transmit.takes(), Offloads::ALL);
        let frames = [
            (tcp(LONG), cut(1448, false)),
            (tcp(100), Offload::NONE),
            (tcp(1448), CHECKSUM),
            (tcp(9000), cut(1000, true)),
            (tcp(9000), CHECKSUM),
            (tcp(9000), Offload::NONE),
            (tcp(1500), cut(100, false)),
        ];
        for round in 0..20 {
            for (frame, piece) in frames.iter().zip([70, 100_000, 999, 5000, 80].into_iter().cycle().skip(round)) {
                assert_eq!(rig.send(frame, piece).frames, 1);
                assert!(rig.taken() == [frame.clone()], "{:?} of {} bytes", frame.1, frame.0.len());
                assert!(rig.leave(frame));
                assert!(rig.received() == [frame.clone()], "{:?} of {} bytes", frame.1, frame.0.len());
            }
        }
        assert_eq!((rig.bad(), rig.drops.named().len()), (0, 0));
    }
}

#[test]
fn the_longest_frames_need_the_longest_chains() {
    assert_eq!(LONGEST, 33);
    let longest = packet::MAX_FRAME as usize;
    for format in formats() {
        let rig = Rig::of(64, format, Offloads::ALL);
        let mut frame = tcp(LONG);
        frame.resize(longest, 7);
        let frame = (frame, CHECKSUM);
        assert_eq!(rig.send(&frame, longest).frames, 1);
        assert_eq!(rig.send(&frame, longest).rest, Some(Reason::NoBuffers), "31 buffers are left");
        assert!(rig.taken() == [frame.clone()]);
        assert!(rig.leave(&frame) && !rig.leave(&frame));
        assert!(rig.received() == [frame.clone()]);
        // Without messages, frames are as long as ever.
        let rig = Rig::of(64, format, Offloads::CHECKSUM);
        assert_eq!(rig.send(&frame, longest).too_long, 1);
        assert_eq!(rig.send(&(tcp(9000), CHECKSUM), 9054).frames, 1);
    }
}

#[test]
fn long_messages_share_the_room_of_a_burst() {
    let rig = Rig::of(1024, 0, Offloads::ALL);
    let frame = (tcp(LONG), cut(1448, false));
    let (mut sent, mut received) = (0, Vec::new());
    while rig.leave(&frame) {
        sent += 1;
    }
    while received.len() < sent {
        let burst = rig.received();
        assert!(!burst.is_empty(), "{} of {sent}", received.len());
        assert!(burst.len() as u64 <= MAX_BURST_BYTES / LONG as u64 + 1);
        received.extend(burst);
    }
    assert!(sent >= 30 && received.iter().all(|got| *got == frame));
    assert!(rig.leave(&frame), "all buffers came back");
}

#[test]
fn a_device_that_was_told_of_less_gets_and_leaves_less() {
    let tcp4 = Offloads::CHECKSUM | Offloads::TCP4;
    for (port, left, may) in [
        (tcp4, cut(1000, false), true),
        (tcp4, cut(1000, true), false),
        (Offloads::CHECKSUM, CHECKSUM, true),
        (Offloads::CHECKSUM, cut(1000, false), false),
    ] {
        let rig = Rig::new(256, 0, [port, Offloads::ALL]);
        assert_eq!(rig.transmit.takes(), port);
        for len in [1460, 9000] {
            assert!(rig.leave(&(tcp(len), left)));
            let expected: Vec<_> = may.then(|| (tcp(len), left)).into_iter().collect();
            assert!(rig.received() == expected, "{left:?}");
        }
        assert_eq!(rig.bad(), if may { 0 } else { 2 });
    }
}

/// Some devices leave checksums that they must not leave: the port finishes them. A port without offloads writes no header.
#[test]
fn without_offloads_checksums_are_finished_and_headers_stay() {
    for format in formats() {
        let rig = Rig::new(256, format, [Offloads::NONE, Offloads::ALL]);
        assert_eq!(rig.transmit.takes(), Offloads::NONE);
        for len in [100, 9000] {
            let mut finished = tcp(len);
            let patch = unfinished::as_asked([Segment::from(&finished[..])].into_iter(), 34, 16).unwrap();
            patch.apply(&mut finished);
            assert!(rig.leave(&(tcp(len), CHECKSUM)));
            assert!(rig.received() == [(finished.clone(), Offload::NONE)]);
            assert_eq!(rig.send(&(finished.clone(), Offload::NONE), len + 54).frames, 1);
            assert!(rig.taken() == [(finished, Offload::NONE)]);
        }
        assert!((0..rig.size).all(|index| rig.header(index) == [0; 12]) && rig.bad() == 0);
    }
}

/// A device says that a checksum is right.
#[test]
fn a_valid_checksum_is_no_work() {
    let rig = Rig::of(64, 0, Offloads::ALL);
    let header = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(rig.received_with(&tcp(100), header) == [(tcp(100), Offload::NONE)]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A frame with this payload, in pieces of this length.
    Send(Left, usize, usize),
    Take,
}

#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    Checksum,
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let left = prop_oneof![Just(Left::Nothing), Just(Left::Checksum), Just(Left::Cut)];
    let payload = prop_oneof![6..2000usize, 1970..1990usize, 2000..20_000usize, Just(LONG)];
    let send = (left, payload, 100..3000usize).prop_map(|(left, payload, piece)| Step::Send(left, payload, piece));
    prop_oneof![3 => send, 2 => Just(Step::Take)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    /// Frames with and without work go through all buffers in turn, and each arrives with its own description: buffers come back with
    /// headers of zeros.
    #[test]
    fn each_frame_has_its_own_description(format in prop::sample::select(formats().to_vec()), steps in prop::collection::vec(step(), 1..120)) {
        let rig = Rig::of(64, format, Offloads::ALL);
        let mut sent = Vec::new();
        for step in steps {
            match step {
                Step::Send(left, payload, piece) => {
                    let left = match left {
                        Left::Checksum => CHECKSUM,
                        // One that is no longer than a segment is none.
                        Left::Cut if payload > 500 => cut(500, false),
                        _ => Offload::NONE,
                    };
                    let frame = (tcp(payload), left);
                    if rig.send(&frame, piece).frames == 1 {
                        sent.push(frame);
                    }
                }
                Step::Take => prop_assert!(rig.taken() == std::mem::take(&mut sent)),
            }
        }
        prop_assert!(rig.taken() == sent);
        // The second one needs buffers that came back, and so takes all of them back.
        for _ in 0..2 {
            prop_assert_eq!(rig.send(&(tcp(LONG), Offload::NONE), 3000).frames, 1);
            prop_assert_eq!(rig.taken().len(), 1);
        }
        prop_assert!((0..rig.size).all(|index| rig.header(index) == [0; 12]));
    }

    /// Whatever header a device writes, a frame comes with what its description says, or is dropped and counted.
    #[test]
    fn any_header_is_read_or_refused(
        header: [u8; header::LEN],
        likely in (0..4u8, prop::sample::select(vec![0, 1, 4, 5, 0x81]), 0..3000u16, 30..40u16, 14..18u16),
        is_any: bool,
        payload in prop_oneof![60..300usize, 3000..9000usize],
        work in prop::sample::select(vec![Offloads::CHECKSUM, Offloads::ALL]),
    ) {
        let (flags, kind, size, start, offset) = likely;
        let [size, start, offset] = [size, start, offset].map(u16::to_le_bytes);
        let likely = [flags, kind, 0, 0, size[0], size[1], start[0], start[1], offset[0], offset[1]];
        let header = if is_any { header } else { likely };
        let (rig, frame) = (Rig::of(64, 0, work), tcp(payload));
        let read = header::read(header, work, frame.len() as u32, &frame[..HEAD.min(frame.len())]);
        let received = rig.received_with(&frame, header);
        match read {
            Ok(left) => prop_assert!(received == [(frame, left)] && rig.bad() == 0),
            Err(_) => prop_assert!(received.is_empty() && rig.bad() == 1),
        }
    }
}
