//! Any frame with any description of what its sender left to others: what is read holds for the frame, and a message that is cut, also
//! after its sender has changed it, becomes frames that have its payload and right checksums.

use arbitrary::Arbitrary;
use packet::checksum::{self, Sum};
use packet::offload::header::{read, write};
use packet::offload::{Cut, Offload, Offloads, Work};
use packet::segmenter::{MAX_HEADERS, Segmenter};
use packet::{Cursor, HEAD, Segment, unfinished};

/// A frame and its description.
#[derive(Arbitrary, Debug)]
pub struct Input {
    header: [u8; 10],
    frame: Vec<u8>,
    /// Valid headers before the frame: a fuzzer rarely guesses them.
    outer: Outer,
    tags: u8,
    /// Where the frame is changed after its description was read, and how.
    change: Option<(u8, u8)>,
    /// Where the frame goes on in another segment.
    split: u16,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
enum Outer {
    None,
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
}

/// Reads the description, and does what it says.
pub fn run(input: &Input) {
    let (mut frame, mut header) = (Vec::new(), input.header);
    if input.outer != Outer::None {
        let at = headers(&mut frame, input.outer, input.tags % 3, input.frame.len() as u16);
        header[0] |= 1;
        header[1] = [1, 4, 5, 5][input.outer as usize - 1] | header[1] & 0x80;
        header[6..8].copy_from_slice(&(at as u16).to_le_bytes());
        header[8..].copy_from_slice(&[if matches!(input.outer, Outer::Tcp4 | Outer::Tcp6) { 16 } else { 6 }, 0]);
    }
    frame.extend_from_slice(&input.frame);
    frame.truncate(packet::MAX_FRAME as usize);
    let read_again = |header, allowed| read(header, allowed, frame.len() as u32, &frame[..frame.len().min(HEAD)]);
    let Ok(offload) = read_again(header, Offloads::ALL) else { return };
    assert_eq!(read_again(header, offload.needs()), Ok(offload));
    assert_eq!(read_again(write(offload), offload.needs()), Ok(offload));
    let mut changed = frame.clone();
    if let Some((at, value)) = input.change
        && let Some(byte) = changed.get_mut(usize::from(at))
    {
        *byte = value;
    }
    let (front, back) = changed.split_at(usize::from(input.split).min(changed.len()));
    let segments = [front, back].map(Segment::from);
    match offload.work() {
        Work::Nothing => {}
        Work::Checksum { start, offset } => {
            let patch = unfinished::as_asked(segments.into_iter(), start.into(), offset.into());
            assert!(patch.is_some_and(|patch| patch.at as usize + patch.bytes().len() <= changed.len()));
        }
        Work::Cut(cut) => check(&changed, segments, cut, offload, input.change.is_none()),
    }
}

fn check(frame: &[u8], segments: [Segment<'_>; 2], cut: Cut, offload: Offload, must_be: bool) {
    assert_eq!(Offload::cut(cut), Some(offload));
    let Ok(segmenter) = Segmenter::new(segments.into_iter(), frame.len() as u32, cut) else {
        assert!(!must_be, "what was read does not hold");
        return;
    };
    let headers_len = segmenter.headers_len();
    let mut at = Cursor::new(segments);
    at.skip(headers_len as u32);
    let mut payload = Vec::new();
    for index in 0..segmenter.count() {
        let range = segmenter.payload(index);
        assert!(range.len() <= usize::from(cut.size));
        let mut sum = Sum::new();
        let from = payload.len();
        at.take(range.len() as u32).for_each(|piece| {
            piece.read_pieces(|bytes| {
                sum.add(bytes);
                payload.extend_from_slice(bytes);
            });
        });
        let mut room = [0xaa; MAX_HEADERS];
        let len = segmenter.write(index, sum, &mut room);
        assert_eq!(len, headers_len);
        // A receiver finds the headers again, and nothing to renew.
        let whole = [&room[..len], &payload[from..]].concat();
        assert_eq!(unfinished::renew([Segment::from(&whole[..])].into_iter()), None, "{whole:?}");
        let ip = usize::from(cut.start) - 20;
        if frame[12..14] == [8, 0] && frame[14] == 0x45 {
            assert_eq!(checksum::of(&whole[ip..ip + 20]), 0);
        }
    }
    assert_eq!(payload, frame[headers_len..]);
}

/// Writes headers for `len` bytes, of which the first are options of TCP. Returns where the transport header begins.
fn headers(frame: &mut Vec<u8>, outer: Outer, tags: u8, len: u16) -> usize {
    let (protocol, transport) = if matches!(outer, Outer::Tcp4 | Outer::Tcp6) { (6, 20) } else { (17, 8) };
    frame.extend([2; 12]);
    frame.extend([0x81, 0, 0, 5].repeat(tags.into()));
    let len = len.wrapping_add(transport);
    if matches!(outer, Outer::Tcp4 | Outer::Udp4) {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(len.wrapping_add(20).to_be_bytes());
        frame.extend([0, 9, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0xfd; 32]);
    }
    let at = frame.len();
    frame.extend([0x12, 0x34, 0xab, 0xcd]);
    if protocol == 17 {
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0]);
    } else {
        frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x99, 1, 0, 0, 0, 0, 0]);
    }
    at
}
