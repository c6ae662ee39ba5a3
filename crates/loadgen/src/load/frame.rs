//! The load's frames, and the parts of them that it touches.
//!
//! Ethernet, IPv4 and UDP headers, and at byte 48 the frame's sequence number, so that the first cache line holds everything
//! that a network function reads. The rest is payload: bytes derived from the sequence number.

use packet::checksum;

/// Offset of the sequence number in a frame.
const SEQUENCE: usize = 48;
/// Offset of the payload, which only [`Payload`] touches.
const PAYLOAD: usize = 56;

/// Shortest frame, in bytes without the checksum: Ethernet's own limit.
pub const MIN_SIZE: u16 = 60;
/// Longest frame, in bytes.
pub const MAX_SIZE: u16 = 9216;

/// Bytes of noise that payloads are cut from, at an offset derived from the sequence number.
const NOISE: usize = 8192;

/// Properties common to all frames of one direction.
pub struct Shape {
    /// Start of a frame, with a sequence number of zero.
    line: [u8; PAYLOAD],
    /// Bytes of a frame.
    end: usize,
    noise: Box<[u8]>,
}

impl Shape {
    /// Creates the shape of frames of `size` bytes from port `from` to port `to`.
    pub fn new(from: usize, to: usize, size: u16) -> Shape {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let end = usize::from(size);
        let noise = (0..NOISE + end).map(|_| random()).collect();
        Shape { line: first_line(from, to, size), end, noise }
    }

    /// Returns the length of a frame, in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> usize {
        self.end
    }

    /// Fills a buffer that is sent for the first time.
    pub fn prepare(&self, bytes: &mut [u8]) {
        bytes[..PAYLOAD].copy_from_slice(&self.line);
        self.fill(bytes, 0);
    }

    /// Returns the payload of a frame: whole cache lines further on for each frame, with the frame's own alignment.
    #[inline(always)]
    fn payload(&self, sequence: u64) -> &[u8] {
        let at = sequence as usize % (NOISE / 64) * 64;
        &self.noise[at + PAYLOAD..at + self.end]
    }

    #[inline(always)]
    fn fill(&self, bytes: &mut [u8], sequence: u64) {
        bytes[PAYLOAD..self.end].copy_from_slice(self.payload(sequence));
    }

    #[inline(always)]
    fn is_filled(&self, bytes: &[u8], sequence: u64) -> bool {
        bytes[PAYLOAD..self.end] == *self.payload(sequence)
    }
}

/// Builds Ethernet, IPv4 and UDP headers between two made-up addresses.
fn first_line(from: usize, to: usize, size: u16) -> [u8; PAYLOAD] {
    let mut ethernet = [0; PAYLOAD];
    let address = |port: usize| [0x02, 0, 0, 0, 0x10, port as u8];
    ethernet[..6].copy_from_slice(&address(to));
    ethernet[6..12].copy_from_slice(&address(from));
    ethernet[12..14].copy_from_slice(&[0x08, 0x00]);
    let total = size - 14;
    let ip = &mut ethernet[14..34];
    ip[..10].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&[10, 0, from as u8, 1]);
    ip[16..20].copy_from_slice(&[10, 0, to as u8, 1]);
    let sum = checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    // UDP, discard to discard, without a checksum, which IPv4 allows.
    let length = total - 20;
    ethernet[34..40].copy_from_slice(&[0, 9, 0, 9, (length >> 8) as u8, length as u8]);
    ethernet
}

/// Access to the bytes of a frame.
pub trait Touch {
    /// Whether frames carry sequence numbers: losses and duplicates are then detected one by one.
    const SEQUENCED: bool;
    /// Cache lines of a frame that are worth prefetching; the processor foresees those that follow.
    const LINES: usize = 1;

    /// Returns how many bytes of a frame of `len` are read.
    fn looks_at(len: usize) -> usize {
        len.min(PAYLOAD)
    }

    /// Writes a frame before it is sent, in a buffer that was prepared once.
    fn write(bytes: &mut [u8], shape: &Shape, sequence: u64);

    /// Reads a received frame; returns its sequence number, and whether it is unchanged.
    fn read(bytes: &[u8], shape: &Shape, expected: u64) -> (u64, bool);
}

/// Frames are written once; the load never accesses them again.
pub struct Nothing;

impl Touch for Nothing {
    const SEQUENCED: bool = false;

    #[inline(always)]
    fn write(_: &mut [u8], _: &Shape, _: u64) {}

    #[inline(always)]
    fn read(_: &[u8], _: &Shape, expected: u64) -> (u64, bool) {
        (expected, true)
    }
}

/// The first cache line is written before a frame is sent, and compared after it was received.
pub struct Header;

impl Touch for Header {
    const SEQUENCED: bool = true;

    #[inline(always)]
    fn write(bytes: &mut [u8], shape: &Shape, sequence: u64) {
        bytes[..SEQUENCE].copy_from_slice(&shape.line[..SEQUENCE]);
        bytes[SEQUENCE..PAYLOAD].copy_from_slice(&sequence.to_le_bytes());
    }

    #[inline(always)]
    fn read(bytes: &[u8], shape: &Shape, _: u64) -> (u64, bool) {
        let sequence = word(&bytes[SEQUENCE..]);
        let mut different = 0;
        for at in (0..SEQUENCE).step_by(8) {
            different |= word(&bytes[at..]) ^ word(&shape.line[at..]);
        }
        (sequence, different == 0)
    }
}

/// Every byte is written before a frame is sent, and compared after it was received.
pub struct Payload;

impl Touch for Payload {
    const SEQUENCED: bool = true;
    const LINES: usize = 8;

    fn looks_at(len: usize) -> usize {
        len
    }

    #[inline(always)]
    fn write(bytes: &mut [u8], shape: &Shape, sequence: u64) {
        Header::write(bytes, shape, sequence);
        shape.fill(bytes, sequence);
    }

    #[inline(always)]
    fn read(bytes: &[u8], shape: &Shape, expected: u64) -> (u64, bool) {
        let (sequence, intact) = Header::read(bytes, shape, expected);
        (sequence, intact && shape.is_filled(bytes, sequence))
    }
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent<T: Touch>(size: u16, sequence: u64) -> (Vec<u8>, Shape) {
        let shape = Shape::new(0, 1, size);
        let mut bytes = vec![0; 2048];
        shape.prepare(&mut bytes);
        T::write(&mut bytes, &shape, sequence);
        (bytes, shape)
    }

    #[test]
    fn every_changed_byte_of_the_frame_is_seen_and_none_after_it() {
        for size in [60, 64, 65, 71, 512, 1518] {
            let (bytes, shape) = sent::<Payload>(size, 77);
            assert_eq!(Payload::read(&bytes, &shape, 77), (77, true), "size {size}");
            let end = usize::from(size);
            for at in 0..end + 8 {
                let mut changed = bytes.clone();
                changed[at] ^= 0x10;
                let same = Payload::read(&changed, &shape, 77) == (77, true);
                assert_eq!(same, at >= end, "byte {at} of size {size}");
            }
        }
    }

    #[test]
    fn the_header_level_sees_headers_only() {
        let (mut bytes, shape) = sent::<Header>(64, 5);
        bytes[PAYLOAD] ^= 1;
        assert_eq!(Header::read(&bytes, &shape, 0), (5, true));
        bytes[20] ^= 1;
        assert_eq!(Header::read(&bytes, &shape, 0), (5, false));
    }

    #[test]
    fn the_internet_header_is_valid() {
        let line = first_line(3, 4, 1518);
        assert_eq!(checksum::of(&line[14..34]), 0);
    }
}
