//! Frames that allow checking of arrival, order and content.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Guest;
use crate::{Error, Result};

/// Ethernet header, sequence number, length.
const HEAD: usize = NUMBER + 8 + 4;

/// Bytes before the sequence number.
const NUMBER: usize = 14;

/// The ethertype for local experiments (IEEE 802, clause 9.2.3).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Bytes of noise that payloads are cut from: more than the longest payload, so that the cuts differ, but few enough for a
/// cache.
const NOISE: usize = 32 << 10;

/// Lengths of frames, in bytes, Ethernet header included.
pub type Sizes = RangeInclusive<usize>;

/// Returns a repeatable random number (splitmix64).
fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// State shared by both ends of a stream.
#[derive(Debug, Clone)]
struct Stream {
    seed: u64,
    sizes: Sizes,
    noise: Arc<[u8]>,
}

impl Stream {
    fn new(from: u8, to: u8, sizes: Sizes) -> Self {
        let seed = u64::from(from) << 8 | u64::from(to);
        let noise = (0..NOISE as u64 / 8).flat_map(|word| mix(seed << 32 | word).to_le_bytes()).collect();
        Self { seed, sizes, noise }
    }

    /// Returns the bytes of frame `number`.
    fn frame(&self, number: u64) -> ([u8; HEAD], &[u8]) {
        let random = mix(self.seed << 48 ^ number);
        let span = self.sizes.end() - self.sizes.start() + 1;
        let len = self.sizes.start() + (random >> 32) as usize % span;
        let mut head = [0; HEAD];
        head[..6].copy_from_slice(&mac(self.seed as u8));
        head[6..12].copy_from_slice(&mac((self.seed >> 8) as u8));
        head[12..14].copy_from_slice(&ETHERTYPE);
        head[14..22].copy_from_slice(&number.to_be_bytes());
        head[22..].copy_from_slice(&(len as u32).to_be_bytes());
        let payload = len - HEAD;
        let at = random as u32 as usize % (NOISE - payload);
        (head, &self.noise[at..at + payload])
    }
}

/// Returns the address of the stream end with this number.
fn mac(end: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, 0x0e, end]
}

/// Generator of the frames of a stream, in order.
#[derive(Debug)]
pub struct Source {
    stream: Stream,
    sent: u64,
}

impl Source {
    /// Creates a stream between two numbered ends.
    pub fn new(from: u8, to: u8, sizes: Sizes) -> Self {
        Self { stream: Stream::new(from, to, sizes), sent: 0 }
    }

    /// Returns the number of frames sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the next frame, for sending it otherwise than by [`Source::send`].
    pub fn make(&mut self) -> Vec<u8> {
        let (head, payload) = self.stream.frame(self.sent);
        self.sent += 1;
        [&head[..], payload].concat()
    }

    /// Adds the next frame to those that `guest` sends; returns false if there is no room.
    pub fn send(&mut self, guest: &mut Guest) -> Result<bool> {
        let (head, payload) = self.stream.frame(self.sent);
        // One chain in eight has several descriptors.
        let buffers = match self.sent % 16 {
            5 => 2,
            11 => 3,
            _ => 1,
        };
        let sent = guest.send(&[&head, payload], buffers)?;
        self.sent += u64::from(sent);
        Ok(sent)
    }
}

/// Checker of the frames of a stream: each must be a sent frame, byte by byte, and later than the one before.
#[derive(Debug)]
pub struct Sink {
    stream: Stream,
    next: u64,
    received: u64,
    /// Whether each frame has come, by number, if they may come in any order.
    seen: Option<Vec<bool>>,
    /// Number of frames of others, if there may be any.
    others: Option<u64>,
}

impl Sink {
    /// Creates the other end of a [`Source`] with the same arguments.
    pub fn new(from: u8, to: u8, sizes: Sizes) -> Self {
        Self { stream: Stream::new(from, to, sizes), next: 0, received: 0, seen: None, others: None }
    }

    /// Accepts frames in any order, each once.
    pub fn in_any_order(mut self) -> Self {
        self.seen = Some(Vec::new());
        self
    }

    /// Skips frames of others, and counts them: those that differ in an address or the EtherType.
    pub fn among_others(mut self) -> Self {
        self.others = Some(0);
        self
    }

    /// Returns the number of frames that were skipped.
    pub fn others(&self) -> u64 {
        self.others.unwrap_or(0)
    }

    /// Returns the number of frames received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the lowest number that the next frame may have.
    pub fn due(&self) -> u64 {
        self.next
    }

    /// Forgets lost frames: the source continues with frame `next`.
    pub fn skip_to(&mut self, next: u64) {
        self.next = next;
    }

    /// Checks the next frame.
    pub fn take(&mut self, frame: &[u8]) -> Result<()> {
        if let Some(others) = &mut self.others
            && frame.get(..NUMBER) != Some(&self.stream.frame(0).0[..NUMBER])
        {
            *others += 1;
            return Ok(());
        }
        let wrong =
            |problem: String| Err(Error::malformed(format!("a frame after {} good ones", self.received), problem));
        let Some(number) = frame.get(14..22).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes) else {
            return wrong(format!("it has {} bytes only", frame.len()));
        };
        let is_late = match &self.seen {
            None => number < self.next,
            Some(seen) => seen.get(number as usize).is_some_and(|&seen| seen),
        };
        if is_late {
            return wrong(format!("it is number {number}, which came before or too late: {} was due", self.next));
        }
        let (head, payload) = self.stream.frame(number);
        let len = HEAD + payload.len();
        if frame.len() != len {
            return wrong(format!("number {number} should have {len} bytes, and has {}", frame.len()));
        }
        if frame[..HEAD] != head || frame[HEAD..] != *payload {
            let expected = head.iter().chain(payload);
            let at = frame.iter().zip(expected).position(|(found, wanted)| found != wanted);
            return wrong(format!("number {number} of {len} bytes differs from byte {at:?} on"));
        }
        if let Some(seen) = &mut self.seen {
            seen.resize(seen.len().max(number as usize + 1), false);
            seen[number as usize] = true;
        }
        self.next = number + 1;
        self.received += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64) -> Vec<u8> {
        let stream = Stream::new(1, 2, 60..=9000);
        let (head, payload) = stream.frame(number);
        [&head[..], payload].concat()
    }

    #[test]
    fn good_frames_pass_and_gaps_are_no_error() {
        let mut sink = Sink::new(1, 2, 60..=9000);
        for number in [0, 1, 5, 1000] {
            sink.take(&frame(number)).unwrap();
        }
        assert_eq!(sink.received(), 4);
    }

    #[test]
    fn bad_frames_are_told_apart() {
        let refused = |sink: &mut Sink, frame: &[u8]| sink.take(frame).unwrap_err().to_string();
        let mut sink = Sink::new(1, 2, 60..=9000);
        sink.take(&frame(7)).unwrap();
        assert!(refused(&mut sink, &frame(7)).contains("too late"));
        let mut flipped = frame(8);
        let at = flipped.len() - 1;
        flipped[at] ^= 1;
        assert!(refused(&mut sink, &flipped).contains(&format!("Some({at})")));
        assert!(refused(&mut sink, &frame(9)[..59]).contains("has 59"));
        assert!(refused(&mut sink, &[0; 20]).contains("20 bytes only"));
        assert!(refused(&mut Sink::new(1, 3, 60..=9000), &frame(0)).contains("number 0"));
    }

    #[test]
    fn frames_of_others_are_skipped() {
        let mut sink = Sink::new(1, 2, 60..=9000).among_others();
        let stream = Stream::new(1, 3, 60..=9000);
        let (head, payload) = stream.frame(0);
        for other in [[&head[..], payload].concat(), vec![0; 9]] {
            sink.take(&other).unwrap();
        }
        sink.take(&frame(0)).unwrap();
        assert_eq!((sink.received(), sink.others()), (1, 2));
        let mut flipped = frame(1);
        flipped[NUMBER + 20] ^= 1;
        assert!(sink.take(&flipped).is_err());
    }

    #[test]
    fn each_frame_comes_once_in_any_order() {
        let mut sink = Sink::new(1, 2, 60..=9000).in_any_order();
        for number in [3, 0, 7, 1] {
            sink.take(&frame(number)).unwrap();
        }
        assert!(sink.take(&frame(0)).unwrap_err().to_string().contains("came before"));
        assert_eq!(sink.received(), 4);
    }

    #[test]
    fn sizes_cover_their_range() {
        let stream = Stream::new(1, 2, 60..=9000);
        let lengths: Vec<usize> = (0..20_000).map(|number| HEAD + stream.frame(number).1.len()).collect();
        assert!(*lengths.iter().min().unwrap() < 65 && *lengths.iter().max().unwrap() > 8995);
    }
}
