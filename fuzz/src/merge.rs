//! Any burst of frames for an output that takes messages: each frame is in what leaves once, those of a connection in their order, and a
//! message that is cut again is the segments that it was made of.

use arbitrary::Arbitrary;
use packet::merge::{Limits, Merger, Outgoing, may_merge};
use packet::offload::{Offload, Offloads, Work};
use packet::segmenter::{MAX_HEADERS, Segmenter};
use packet::{BurstStorage, Cursor, MAX_BURST, MAX_FRAME, MIN_FRAME, Segment, Unjudged};
use packet::{checksum, checksum::Sum, unfinished};

/// A burst.
#[derive(Arbitrary, Debug)]
pub struct Input {
    frames: Vec<Frame>,
    takes: u8,
    longest: u32,
}

/// The next frame of one of four connections, of which something is changed.
#[derive(Arbitrary, Debug)]
struct Frame {
    connection: u8,
    payload: u16,
    flags: u8,
    /// Where bytes are changed, and to which values: before checksums are computed, or after.
    before: Vec<(u8, u8)>,
    after: Vec<(u8, u8)>,
    padding: u8,
    /// Where it goes on in another segment of memory.
    split: u16,
}

impl Frame {
    /// Returns its bytes. Connections count what they send.
    fn bytes(&self, sent: &mut [(u32, u16); 4]) -> Vec<u8> {
        let connection = usize::from(self.connection % 4);
        let (sequence, id) = &mut sent[connection];
        let payload = usize::from(self.payload % 2048);
        let len = (20 + payload) as u16;
        let mut frame = vec![2; 12];
        if connection % 2 == 0 {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + len).to_be_bytes());
            frame.extend(id.to_be_bytes());
            frame.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, connection as u8, 10, 0, 0, 9]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([6, 64]);
            frame.extend([connection as u8; 32]);
        }
        frame.extend([0, 80, 1, 0]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 7, 0x50, 0x10 | self.flags & 9, 1, 0, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|at| at as u8));
        (*sequence, *id) = (sequence.wrapping_add(payload as u32), id.wrapping_add(1));
        change(&mut frame, &self.before);
        if frame[14] == 0x45 {
            frame[24..26].fill(0);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(patch) = unfinished::renew([Segment::from(&frame[..])].into_iter()) {
            patch.apply(&mut frame);
        }
        change(&mut frame, &self.after);
        frame.resize(frame.len() + usize::from(self.padding % 8), 0xee);
        frame
    }
}

fn change(frame: &mut [u8], changes: &[(u8, u8)]) {
    for (at, value) in changes {
        if let Some(byte) = frame.get_mut(usize::from(*at)) {
            *byte = *value;
        }
    }
}

/// Merges the burst, and cuts what it became.
pub fn run(input: &Input) {
    let mut sent = [(0xffff_f000, 0xfff0); 4];
    let bytes: Vec<Vec<u8>> = input.frames.iter().take(MAX_BURST).map(|frame| frame.bytes(&mut sent)).collect();
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for (frame, from) in bytes.iter().zip(&input.frames) {
        let (front, back) = frame.split_at(usize::from(from.split).clamp(1, frame.len() - 1));
        assert!(frame.len() >= MIN_FRAME as usize && burst.push_segments([front, back].map(Segment::from)));
    }
    let frames = burst.frames();
    let takes = [Offloads::ALL, Offloads::TCP4 | Offloads::CHECKSUM, Offloads::TCP6 | Offloads::CHECKSUM];
    let takes = takes[usize::from(input.takes % 3)];
    let limits = Limits { takes, longest: input.longest.min(MAX_FRAME) };
    let mut merger = Box::<Merger>::default();
    let Some(merged) = merger.merge(&frames, Unjudged, limits) else { return };
    assert!(may_merge(frames.as_slice()));
    let mut order = Vec::new();
    for outgoing in merged.frames() {
        match outgoing {
            Outgoing::Frame(index) => order.push(index),
            Outgoing::Message(message) => {
                let members: Vec<usize> = message.members().collect();
                assert!(takes.has(message.offload().needs()) && members[0] == message.first());
                let mut whole = Vec::new();
                let add = |piece: Segment<'_>| piece.read_pieces(|part| whole.extend_from_slice(part));
                message.segments(&frames, Unjudged).for_each(add);
                assert!(whole.len() <= limits.longest as usize);
                check(&whole, message.offload(), members.iter().map(|member| &bytes[*member][..]));
                order.extend(members);
            }
        }
    }
    for (at, index) in order.iter().enumerate() {
        let passed = order[..at].iter().filter(|before| *before > index);
        let same = passed.filter(|before| connection(&bytes[**before]) == connection(&bytes[*index]));
        assert!(same.filter(|before| connection(&bytes[**before]).is_some()).count() == 0, "{index} of {order:?}");
    }
    order.sort_unstable();
    assert!(order.into_iter().eq(0..frames.len()));
}

/// Returns the addresses and ports of a packet of TCP, whatever else it says.
fn connection(frame: &[u8]) -> Option<[&[u8]; 2]> {
    let (protocol, fields) = match frame[12..15] {
        [8, 0, 0x45] => (23, 26..38),
        [0x86, 0xdd, 0x60..0x70] => (20, 22..58),
        _ => return None,
    };
    (*frame.get(protocol)? == 6).then_some([&frame[..14], frame.get(fields)?])
}

/// Checks that a message is cut into these segments, but for their padding and their numbers.
fn check<'a>(whole: &[u8], offload: Offload, segments: impl ExactSizeIterator<Item = &'a [u8]>) {
    let Work::Cut(cut) = offload.work() else { panic!("a message is to be cut") };
    let frame = [Segment::from(whole)];
    let segmenter =
        Segmenter::new(frame.into_iter(), whole.len() as u32, cut).expect("its headers are those it was made with");
    assert_eq!(segmenter.count() as usize, segments.len());
    let mut at = Cursor::new(frame);
    at.skip(segmenter.headers_len() as u32);
    for (index, segment) in segments.enumerate() {
        let (mut sum, mut payload) = (Sum::new(), Vec::new());
        at.take(segmenter.payload(index as u32).len() as u32).for_each(|piece| {
            piece.add_to(&mut sum);
            piece.read_pieces(|part| payload.extend_from_slice(part));
        });
        let mut room = [0; MAX_HEADERS];
        let len = segmenter.write(index as u32, sum, &mut room);
        let again = [&room[..len], &payload].concat();
        let mut was = segment[..again.len()].to_vec();
        let ip = usize::from(cut.start) - 20;
        if again[ip - 2..ip + 1] == [8, 0, 0x45] && again[ip + 6] == 0x40 {
            was[ip + 4..ip + 6].copy_from_slice(&again[ip + 4..ip + 6]);
            was[ip + 10..ip + 12].copy_from_slice(&again[ip + 10..ip + 12]);
        }
        // A checksum of zero has two forms.
        for field in [ip + 10, usize::from(cut.start) + 16] {
            if was[field..field + 2] == [0xff; 2] && again[field..field + 2] == [0; 2] {
                was[field..field + 2].fill(0);
            }
        }
        assert_eq!(again, was);
    }
}
