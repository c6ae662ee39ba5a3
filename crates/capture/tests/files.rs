//! Files in both formats: valid ones are read as intended, and the reader ends on any other.

use capture::{Captured, Error, Reader, Writer};
use proptest::prelude::*;
use std::io::{Cursor, Read};
use std::time::Duration;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

fn read(file: Vec<u8>) -> Result<Vec<Captured>, Error> {
    Reader::new(Cursor::new(file))?.collect()
}

fn pcap(frames: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, 65_549).unwrap();
    for frame in frames {
        writer.write(frame.time, &frame.bytes).unwrap();
    }
    file
}

/// Byte order of the numbers in a pcapng file.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn half(self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn word(self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.word(body.len() as u32 + 12);
        [&self.word(kind), &length, &body[..], &length].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.word(0x1a2b_3c4d)[..], &self.half(1), &self.half(0), &[0xff; 8]].concat();
        self.block(SECTION, &body)
    }

    /// Returns an interface whose timestamps have this resolution.
    fn interface(self, link: u16, longest: u32, resolution: u8) -> Vec<u8> {
        let option = [&self.half(9)[..], &self.half(1), &[resolution, 0, 0, 0]].concat();
        let end = self.word(0);
        self.block(INTERFACE, &[&self.half(link)[..], &[0; 2], &self.word(longest), &option, &end].concat())
    }

    fn packet(self, interface: u32, timestamp: u64, bytes: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u32;
        let words = [interface, (timestamp >> 32) as u32, timestamp as u32, len, len].map(|word| self.word(word));
        self.block(ENHANCED, &[words.as_flattened(), bytes].concat())
    }
}

const LITTLE: Order = Order { big: false };

fn pcapng(frames: &[Captured]) -> Vec<u8> {
    let mut file = [LITTLE.section(), LITTLE.interface(1, 0, 9)].concat();
    for frame in frames {
        file.extend(LITTLE.packet(0, frame.time.as_nanos() as u64, &frame.bytes));
    }
    file
}

fn captured() -> impl Strategy<Value = Captured> {
    let time = (0u64..1 << 32, 0u32..1_000_000_000).prop_map(|(seconds, part)| Duration::new(seconds, part));
    (time, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(time, bytes)| Captured { time, bytes })
}

/// Reads a file; returns the number of frames, and whether an error ended it. Panics if there are more frames than can fit.
fn exhaust(file: Vec<u8>) -> (usize, bool) {
    let most = file.len() / 12 + 1;
    let Ok(mut reader) = Reader::new(Cursor::new(file)) else { return (0, true) };
    let mut frames = 0;
    loop {
        match reader.next() {
            Some(Ok(_)) => frames += 1,
            last => {
                assert!(reader.next().is_none(), "it goes on after its end");
                return (frames, last.is_some());
            }
        }
        assert!(frames <= most, "more frames than the file has room for");
    }
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written(frames in proptest::collection::vec(captured(), 0..20)) {
        prop_assert_eq!(&read(pcap(&frames)).unwrap(), &frames);
        prop_assert_eq!(&read(pcapng(&frames)).unwrap(), &frames);
    }

    /// Overwrites words of a valid file: lengths, types and interface numbers among them.
    #[test]
    fn a_file_with_a_lie_ends(
        frames in proptest::collection::vec(captured(), 1..6),
        ng: bool,
        lies in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0), 0u32..40, any::<u32>()]), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = if ng { pcapng(&frames) } else { pcap(&frames) };
        for (place, lie) in &lies {
            let at = place.index(file.len() / 4) * 4;
            file[at..at + 4].copy_from_slice(&lie.to_le_bytes());
        }
        exhaust(file.clone());
        file.truncate(cut.index(file.len()));
        exhaust(file);
    }

    #[test]
    fn anything_ends(ng: bool, tail in proptest::collection::vec(any::<u8>(), 0..2000)) {
        exhaust(tail.clone());
        let head = if ng { [LITTLE.section(), LITTLE.interface(1, 0, 6)].concat() } else { pcap(&[]) };
        exhaust([head, tail].concat());
    }
}

/// Blocks of length zero, or shorter than their own headers, do not advance the reader.
#[test]
fn blocks_without_a_length_end_the_file() {
    for order in [LITTLE, Order { big: true }] {
        for kind in [SECTION, INTERFACE, SIMPLE, ENHANCED, 4, 5, 9, 10, 0xbad, 0x4000_0bad, 77] {
            for length in [0, 1, 4, 8, 11] {
                let lie = [order.word(kind), order.word(length)].concat();
                let file = [order.section(), order.interface(1, 0, 6), lie, vec![0; 4096]].concat();
                assert!(
                    matches!(read(file), Err(Error::Block | Error::Format | Error::Cut)),
                    "{kind:#x} of {length} bytes"
                );
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_off_says_so() {
    let frames = [7, 8].map(|byte| Captured { time: Duration::from_secs(9), bytes: vec![byte; 60] });
    for (file, header) in [(pcap(&frames), 24), (pcapng(&frames), 28)] {
        let whole = exhaust(file.clone());
        assert_eq!(whole, (2, false));
        for length in 0..file.len() {
            let (found, failed) = exhaust(file[..length].to_vec());
            assert!(found < 2, "two frames in {length} of {} bytes", file.len());
            assert!(failed || length >= header, "{length} bytes are no file");
        }
        let cut = read(file[..file.len() - 1].to_vec());
        assert!(matches!(cut, Err(Error::Cut)), "{cut:?}");
    }
}

/// Lengths beyond any file: the reader neither waits for that much data nor allocates memory for it.
#[test]
fn a_length_beyond_bounds_is_refused() {
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(0x11);
            Ok(buffer.len())
        }
    }
    let record = [0u32, 0, u32::MAX, u32::MAX].map(u32::to_le_bytes).as_flattened().to_vec();
    let block = [LITTLE.word(ENHANCED), LITTLE.word(0xffff_fff0)].concat();
    let ng = [LITTLE.section(), LITTLE.interface(1, 0, 6), block].concat();
    for file in [[pcap(&[]), record].concat(), ng] {
        let mut reader = Reader::new(Cursor::new(file).chain(Endless)).unwrap();
        let first = reader.next();
        assert!(matches!(first, Some(Err(Error::Long))), "{first:?}");
        assert!(reader.next().is_none());
    }
}

#[test]
fn long_blocks_are_read_and_others_than_packets_passed_over() {
    let comment = LITTLE.block(0x0bad, &vec![0x55; 1 << 20]);
    let frame = Captured { time: Duration::from_micros(1_500_000), bytes: vec![3; 60_000] };
    let packet = LITTLE.packet(0, 1_500_000, &frame.bytes);
    let file = [LITTLE.section(), comment.clone(), LITTLE.interface(1, 0, 6), packet, comment].concat();
    assert_eq!(read(file).unwrap(), [frame]);
}

#[test]
fn interfaces_say_how_packets_are_meant() {
    for order in [LITTLE, Order { big: true }] {
        let section = |blocks: &[Vec<u8>]| [order.section(), blocks.concat()].concat();
        let packet = |interface, timestamp| order.packet(interface, timestamp, &[9; 64]);
        // Milliseconds, 2^-10 s, and a resolution too fine to yield nanoseconds.
        let interfaces = [3, 0x8a, 38].map(|resolution| order.interface(1, 0, resolution)).concat();
        let file = section(&[interfaces, packet(0, 2500), packet(1, 2560), packet(2, u64::MAX)]);
        let times: Vec<Duration> = read(file).unwrap().iter().map(|frame| frame.time).collect();
        assert_eq!(times, [Duration::from_millis(2500), Duration::from_millis(2500), Duration::ZERO]);
        let simple = order.block(SIMPLE, &[&order.word(80)[..], &[7; 60]].concat());
        let cut = read(section(&[order.interface(1, 58, 6), simple.clone()])).unwrap();
        assert_eq!(cut, [Captured { time: Duration::ZERO, bytes: vec![7; 58] }]);
        // Each section has its own interfaces.
        for (wrong, number) in [
            (section(&[packet(0, 0)]), 0),
            (section(&[simple]), 0),
            (section(&[order.interface(1, 0, 6), packet(1, 0)]), 1),
            (section(&[order.interface(1, 0, 6), order.section(), packet(0, 0)]), 0),
        ] {
            assert!(matches!(read(wrong), Err(Error::Interface(found)) if found == number));
        }
        assert!(matches!(read(section(&[order.interface(101, 0, 6)])), Err(Error::LinkType(101))));
        assert!(matches!(read(section(&[order.interface(1, 0, 0x7f)])), Err(Error::Resolution(0x7f))));
    }
}

#[test]
fn pcap_files_of_either_order_and_resolution_are_read() {
    let frame = |time| [Captured { time, bytes: vec![1; 60] }];
    for (magic, fraction, time) in [
        (0xa1b2_c3d4u32, 250_000u32, Duration::from_millis(5250)),
        (0xa1b2_3c4d, 250_000_000, Duration::from_millis(5250)),
        // More than a second of microseconds is carried over.
        (0xa1b2_c3d4, 1_250_000, Duration::from_millis(6250)),
    ] {
        for order in [LITTLE, Order { big: true }] {
            let header = |link: u32| {
                let words = [order.word(0), order.word(0), order.word(65_535), order.word(link)];
                [&order.word(magic)[..], &order.half(2), &order.half(4), words.as_flattened()].concat()
            };
            let record = [order.word(5), order.word(fraction), order.word(60), order.word(60)];
            // The link type's upper bits give the length of checksums at the end of frames.
            let file = [&header(0x1000_0001)[..], record.as_flattened(), &[1; 60]].concat();
            assert_eq!(read(file).unwrap(), frame(time));
            assert!(matches!(read(header(101)), Err(Error::LinkType(101))));
        }
    }
}

#[test]
fn other_files_are_refused() {
    for file in [&b""[..], b"no capture at all", &[0; 100]] {
        assert!(matches!(read(file.to_vec()), Err(Error::Format)));
    }
    let missing = Reader::open("/nonexistent/file".as_ref()).err().unwrap();
    assert!(matches!(missing, Error::Open(_)));
}
