//! Valid files are read as intended, and the reader ends on any other.

use crate::made::*;
use capture::{Captured, Cut, Error, Reader};
use proptest::prelude::*;
use std::io::{Cursor, Read};
use std::time::Duration;

fn captured() -> impl Strategy<Value = Captured> {
    let time = (0u64..1 << 32, 0u32..1_000_000_000).prop_map(|(seconds, part)| Duration::new(seconds, part));
    (time, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(time, bytes)| Captured::whole(time, bytes))
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
    fn reading_a_lying_file_ends(
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
    fn reading_any_bytes_ends(ng: bool, tail in proptest::collection::vec(any::<u8>(), 0..2000)) {
        exhaust(tail.clone());
        let head = if ng { [LITTLE.section(), LITTLE.interface(1, 0, 6)].concat() } else { pcap(&[]) };
        exhaust([head, tail].concat());
    }
}

/// Blocks of length zero, or shorter than their own headers, do not advance the reader.
#[test]
fn blocks_of_length_zero_end_the_file() {
    for order in [LITTLE, BIG] {
        for kind in [SECTION, INTERFACE, SIMPLE, ENHANCED, 4, 5, 9, 10, 0xbad, 0x4000_0bad, 77] {
            for length in [0, 1, 4, 8, 11] {
                let lie = [order.word(kind), order.word(length)].concat();
                let file = [order.section(), order.interface(1, 0, 6), lie, vec![0; 4096]].concat();
                assert!(
                    matches!(read(file), Err(Error::Block(_) | Error::Format | Error::Cut(_))),
                    "{kind:#x} of {length} bytes"
                );
            }
        }
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    let frames = [7, 8].map(|byte| Captured::whole(Duration::from_secs(9), vec![byte; 60]));
    for (file, header, last) in [(pcap(&frames), 24, 76), (pcapng(&frames), 60, 92)] {
        let whole = exhaust(file.clone());
        assert_eq!(whole, (2, false));
        for length in 0..file.len() {
            let (found, failed) = exhaust(file[..length].to_vec());
            assert!(found < 2, "two frames in {length} of {} bytes", file.len());
            assert!(failed || length >= header, "{length} bytes are no file");
        }
        let mut reader = Reader::new(Cursor::new(file[..file.len() - 1].to_vec())).unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), frames[0]);
        let (offset, end) = (file.len() as u64 - last, reader.next());
        assert!(matches!(end, Some(Err(Error::Cut(cut))) if cut == Cut { offset, bytes: last - 1 }), "{end:?}");
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
        assert!(matches!(first, Some(Err(Error::Long { .. }))), "{first:?}");
        assert!(reader.next().is_none());
    }
}

#[test]
fn long_blocks_are_read_and_blocks_without_packets_skipped() {
    let comment = LITTLE.block(0x0bad, &vec![0x55; 1 << 20]);
    let frame = Captured::whole(Duration::from_micros(1_500_000), vec![3; 60_000]);
    let packet = LITTLE.packet(0, 1_500_000, &frame.bytes);
    let file = [LITTLE.section(), comment.clone(), LITTLE.interface(1, 0, 6), packet, comment].concat();
    assert_eq!(read(file).unwrap(), [frame]);
}

#[test]
fn interfaces_define_how_packets_are_read() {
    for order in [LITTLE, BIG] {
        let section = |blocks: &[Vec<u8>]| [order.section(), blocks.concat()].concat();
        let packet = |interface, timestamp| order.packet(interface, timestamp, &[9; 64]);
        // Milliseconds, 2^-10 s, and the finest of either kind.
        let interfaces = [3, 0x8a, 19, 0xbf].map(|resolution| order.interface(1, 0, resolution)).concat();
        let packets = [packet(0, 2500), packet(1, 2560), packet(2, 2_500_000_000), packet(3, 5 << 62)];
        let file = section(&[interfaces, packets.concat()]);
        let times: Vec<Duration> = read(file).unwrap().iter().map(|frame| frame.time).collect();
        let half = Duration::from_millis(2500);
        assert_eq!(times, [half, half, Duration::ZERO, Duration::from_millis(500)]);
        // Two hours later, in the default resolution.
        let option = |code, value: &[u8]| [&order.half(code)[..], &order.half(value.len() as u16), value].concat();
        let hours = [[0; 4], order.word(7200)];
        let hours = if order.big { hours.concat() } else { [hours[1], hours[0]].concat() };
        let later = order.interface_with(1, 0, &option(14, &hours));
        assert_eq!(read(section(&[later, packet(0, 1)])).unwrap()[0].time, Duration::new(7200, 1000));
        for wrong in [option(9, &[6, 0]), option(14, &hours[..4]), order.half(9).to_vec()] {
            let read = read(section(&[order.interface_with(1, 0, &wrong)]));
            assert!(matches!(read, Err(Error::Block(28))), "{read:?}");
        }
        // Each section has its own interfaces.
        let interface = order.interface(1, 0, 6);
        for (wrong, number) in [
            (section(&[interface.clone(), packet(1, 0)]), 1),
            (section(&[interface.clone(), order.obsolete(2, 0, &[9; 64])]), 2),
            (section(&[interface.clone(), order.section(), packet(0, 0)]), 0),
        ] {
            assert!(matches!(read(wrong), Err(Error::Interface(found)) if found == number));
        }
        for undescribed in [&[packet(0, 0)][..], &[order.simple(60, &[7; 60])], &[]] {
            assert!(matches!(read(section(undescribed)), Err(Error::NoInterface)));
        }
        for (resolution, other) in [(20, 0xc0), (0x7f, 0xff)] {
            for resolution in [resolution, other] {
                let read = read(section(&[order.interface(1, 0, resolution)]));
                assert!(matches!(read, Err(Error::Resolution(told)) if told == resolution));
            }
        }
    }
}

#[test]
fn one_interface_of_another_kind_is_enough_to_refuse_a_file() {
    let [wire, cooked] = [1, 113].map(|link| LITTLE.interface(link, 0, 6));
    let packet = LITTLE.packet(0, 0, &[9; 64]);
    for blocks in [[&cooked, &wire, &packet], [&wire, &cooked, &packet], [&wire, &packet, &cooked]] {
        let file = [&LITTLE.section(), blocks[0], blocks[1], blocks[2]].map(|part| part.to_vec()).concat();
        assert!(matches!(read(file), Err(Error::LinkType(113))));
    }
    let other = LITTLE.interface(1, 96, 6);
    let file = [LITTLE.section(), wire, other].concat();
    assert!(matches!(read(file), Err(Error::SnapshotLength(262_144, 96))));
}

#[test]
fn obsolete_packets_are_packets() {
    for order in [LITTLE, BIG] {
        let obsolete = order.obsolete(1, 2_000_003, &[5; 61]);
        let file = [order.section(), order.interface(1, 0, 6), order.interface(1, 0, 6), obsolete].concat();
        assert_eq!(read(file).unwrap(), [Captured::whole(Duration::from_micros(2_000_003), vec![5; 61])]);
    }
}

#[test]
fn snapped_packets_have_their_original_length() {
    let time = Duration::ZERO;
    let cut = |bytes, original| Captured { time, bytes: vec![7; bytes], original };
    for order in [LITTLE, BIG] {
        let blocks = [order.snapped(0, 0, &[7; 50], 51), order.simple(80, &[7; 60]), order.packet(0, 0, &[7; 60])];
        let read_ng = read([order.section(), order.interface(1, 60, 6), blocks.concat()].concat()).unwrap();
        assert_eq!(read_ng, [cut(50, 51), cut(60, 80), cut(60, 60)]);
        // A packet that is longer than the file's snapshot length is read to that.
        let header = order.header(0xa1b2_c3d4, (2, 4), 60, 1);
        let records = [(50, 51), (70, 70), (60, 60)];
        let records =
            records.map(|(bytes, original)| order.record((0, 0), [bytes, original], 0, &vec![7; bytes as usize]));
        let read_pcap = read([header, records.concat()].concat()).unwrap();
        assert_eq!(read_pcap, [cut(50, 51), cut(60, 70), cut(60, 60)]);
        assert_eq!(read_pcap.iter().map(Captured::is_snapped).collect::<Vec<_>>(), [true, true, false]);
    }
}

#[test]
fn pcap_files_of_either_order_and_resolution_are_read() {
    let frame = |time| [Captured::whole(time, vec![1; 60])];
    for (magic, fraction, more, time) in [
        (0xa1b2_c3d4u32, 250_000u32, 0, Duration::from_millis(5250)),
        (0xa1b2_3c4d, 250_000_000, 0, Duration::from_millis(5250)),
        // Kuznetzov's headers of packets are longer.
        (0xa1b2_cd34, 250_000, 8, Duration::from_millis(5250)),
        // More than a second of microseconds is carried over.
        (0xa1b2_c3d4, 1_250_000, 0, Duration::from_millis(6250)),
    ] {
        for order in [LITTLE, BIG] {
            let header = |link: u32| order.header(magic, (2, 4), 65_535, link);
            let record = order.record((5, fraction), [60, 60], more, &[1; 60]);
            // The link type's upper bits give the length of checksums at the end of frames.
            assert_eq!(read([header(0x1400_0001), record].concat()).unwrap(), frame(time));
            assert!(matches!(read(header(101)), Err(Error::LinkType(101))));
            assert!(matches!(read(header(0x0200_0001)), Err(Error::Reserved(0x0200_0001))));
        }
    }
}

#[test]
fn versions_tell_which_length_comes_first() {
    for order in [LITTLE, BIG] {
        let file = |version, lengths| {
            let header = order.header(0xa1b2_c3d4, version, 65_535, 1);
            read([header, order.record((0, 0), lengths, 0, &[1; 60])].concat())
        };
        for (version, lengths) in [
            ((2, 4), [60, 90]),
            ((2, 3), [60, 90]),
            ((2, 3), [90, 60]),
            ((2, 2), [90, 60]),
            ((2, 0), [90, 60]),
            ((543, 0), [90, 60]),
        ] {
            let frames = file(version, lengths).unwrap();
            assert_eq!((frames[0].bytes.len(), frames[0].original), (60, 90), "{version:?}");
        }
        for version in [(1, 2), (2, 5), (3, 0), (543, 1)] {
            let refused = file(version, [60, 60]);
            let told = |major, minor| (major, minor) == version;
            assert!(
                matches!(refused, Err(Error::Version { format: "pcap", major, minor }) if told(major, minor)),
                "{refused:?}"
            );
        }
        for version in [(2, 0), (1, 1)] {
            let file = [order.section_of(version.0, version.1), order.interface(1, 0, 6)].concat();
            assert!(matches!(read(file), Err(Error::Version { format: "pcapng", .. })));
        }
        let later = [order.section_of(1, 2), order.interface(1, 0, 6), order.packet(0, 0, &[0; 60])];
        assert_eq!(read(later.concat()).unwrap().len(), 1);
    }
}

#[test]
fn other_files_are_refused() {
    for file in [&b"no capture at all"[..], &[0; 100]] {
        assert!(matches!(read(file.to_vec()), Err(Error::Format)));
    }
    assert!(matches!(read(Vec::new()), Err(Error::Empty)));
    let turned = [LITTLE.section(), LITTLE.interface(1, 0, 6), BIG.section()].concat();
    assert!(matches!(read(turned), Err(Error::ByteOrder)));
    let missing = Reader::open("/nonexistent/file".as_ref()).err().unwrap();
    assert!(matches!(missing, Error::Open(_)));
}
