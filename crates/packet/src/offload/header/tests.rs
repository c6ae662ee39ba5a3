use super::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, read, write};
use crate::HEAD;
use crate::offload::sample::Sample;
use crate::offload::{Cut, MIN_SEGMENT, Message, Offload, Offloads, Refused, Work};
use proptest::prelude::*;

/// The header of a frame whose checksum begins at 34.
fn header(flags: u8, gso: u8, size: u16, start: u16, offset: u16) -> [u8; 10] {
    let [size, start, offset] = [size, start, offset].map(u16::to_le_bytes);
    [flags, gso, 66, 0, size[0], size[1], start[0], start[1], offset[0], offset[1]]
}

fn read_frame(header: [u8; 10], allowed: Offloads, frame: &[u8]) -> Result<Offload, Refused> {
    read(header, allowed, frame.len() as u32, &frame[..frame.len().min(HEAD)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 1000 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn what_is_written_is_read_again(sample in Sample::any(), len in 0..3000usize, size in MIN_SEGMENT..2000, ecn: bool) {
        let ecn = ecn && sample.message != Message::Udp;
        let (frame, cut) = (sample.unfinished(&vec![7; len]), sample.cut(size, ecn));
        let offload = Offload::cut(cut).unwrap();
        let checksum = Offload::checksum(cut.start.into(), if cut.message == Message::Udp { 6 } else { 16 });
        let found = read_frame(write(offload), offload.needs(), &frame);
        prop_assert_eq!(found, Ok(if len > size.into() { offload } else { checksum }));
        prop_assert_eq!(read_frame(write(checksum), Offloads::CHECKSUM, &frame), Ok(checksum));
        prop_assert_eq!(read_frame(write(Offload::NONE), Offloads::NONE, &frame), Ok(Offload::NONE));
        if len > size.into() {
            for (missing, _) in Offloads::NAMES {
                if offload.needs().has(missing) {
                    prop_assert_eq!(read_frame(write(offload), !missing, &frame), Err(Refused::NotNegotiated));
                }
            }
        }
    }

    #[test]
    fn whatever_is_read_holds_for_the_frame(
        header: [u8; 10],
        fields in (0..8u8, prop::sample::select(vec![0, 1, 3, 4, 5, 0x80, 0x81, 0x84, 0x85]), 0..200u16, 0..70u16, 0..20u16),
        is_any: bool,
        frame in prop::collection::vec(any::<u8>(), 0..200),
        sample in Sample::any(),
    ) {
        let (flags, gso, size, start, offset) = fields;
        let header = if is_any { header } else { self::header(flags, gso, size, start, offset) };
        for frame in [frame, sample.unfinished(&[7; 300])] {
            let len = frame.len();
            match read_frame(header, Offloads::ALL, &frame).map(Offload::work) {
                Ok(Work::Checksum { start, offset }) => prop_assert!(usize::from(start) + usize::from(offset) + 2 <= len),
                Ok(Work::Cut(cut)) => {
                    prop_assert!(usize::from(cut.start) + usize::from(cut.header) + usize::from(cut.size) < len);
                    prop_assert!(cut.size >= MIN_SEGMENT);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_header_has_the_layout_of_the_specification() {
    let cut = Cut { message: Message::Tcp6, size: 0x0590, start: 0x36, header: 32, ecn: true };
    assert_eq!(write(Offload::cut(cut).unwrap()), [1, 0x84, 0x56, 0, 0x90, 0x05, 0x36, 0, 16, 0]);
    let udp = Cut { message: Message::Udp, header: 8, ecn: false, ..cut };
    assert_eq!(write(Offload::cut(udp).unwrap()), [1, 5, 0x3e, 0, 0x90, 0x05, 0x36, 0, 6, 0]);
    assert_eq!(write(Offload::checksum(0x0122, 16)), [1, 0, 0, 0, 0, 0, 0x22, 1, 16, 0]);
    assert_eq!(write(Offload::NONE), [0; 10]);
}

#[test]
fn descriptions_that_contradict_the_frame_are_refused() {
    let tcp4 = Sample::of(Message::Tcp4, false).unfinished(&[7; 3000]);
    let tcp6 = Sample::of(Message::Tcp6, true).unfinished(&[7; 3000]);
    let udp4 = Sample::of(Message::Udp, false).unfinished(&[7; 3000]);
    let changed = |at: usize, value| {
        let mut frame = tcp4.clone();
        frame[at] = value;
        frame
    };
    let good = header(1, GSO_TCPV4, 1448, 34, 16);
    assert!(read_frame(good, Offloads::ALL, &tcp4).is_ok());
    for (header, frame, why) in [
        (header(0, GSO_TCPV4, 1448, 34, 16), &tcp4, Refused::NoChecksum),
        (header(2, GSO_TCPV4, 1448, 34, 16), &tcp4, Refused::NoChecksum),
        (header(5, 0, 2, 3, 0), &tcp4, Refused::Coalesced),
        // UFO, which only old guests have; unknown ones; ECN of no type, and of UDP.
        (header(1, 3, 1448, 34, 6), &udp4, Refused::Type),
        (header(1, 2, 1448, 34, 16), &tcp4, Refused::Type),
        (header(1, GSO_ECN, 1448, 34, 16), &tcp4, Refused::Type),
        (header(1, GSO_UDP_L4 | GSO_ECN, 1448, 34, 6), &udp4, Refused::Type),
        (header(1, GSO_TCPV4, 0, 34, 16), &tcp4, Refused::Size),
        (header(1, GSO_TCPV4, MIN_SEGMENT - 1, 34, 16), &tcp4, Refused::Size),
        (header(1, GSO_TCPV6, 1448, 34, 16), &tcp4, Refused::Mismatch),
        (header(1, GSO_TCPV4, 1448, 54, 16), &tcp6, Refused::Mismatch),
        (header(1, GSO_UDP_L4, 1448, 34, 6), &tcp4, Refused::Mismatch),
        (header(1, GSO_TCPV4, 1448, 34, 16), &udp4, Refused::Mismatch),
        (header(1, GSO_TCPV4, 1448, 34, 6), &tcp4, Refused::Mismatch),
        (header(1, GSO_TCPV4, 1448, 38, 16), &tcp4, Refused::Mismatch),
        (good, &changed(12, 0x88), Refused::Headers),
        (good, &changed(20, 0x20), Refused::Headers),
        (good, &changed(21, 1), Refused::Headers),
        (good, &changed(34 + 12, 0x40), Refused::Headers),
        (good, &changed(16, 1), Refused::Length),
        (good, &changed(16, 0xff), Refused::Headers),
        (good, &tcp4[..60].to_vec(), Refused::Headers),
        (header(1, 0, 0, 34, 16), &tcp4[..51].to_vec(), Refused::Outside),
        (header(1, 0, 0, 13, 16), &tcp4, Refused::Outside),
        (header(1, 0, 0, 34, 256), &tcp4, Refused::Outside),
        (header(1, 0, 0, u16::MAX, u16::MAX), &tcp4, Refused::Outside),
        (header(1, GSO_TCPV4, 1448, u16::MAX, 16), &tcp4, Refused::Outside),
        (header(1, 0, 0, 34, 8), &tcp4, Refused::Crc),
    ] {
        assert_eq!(read_frame(header, Offloads::ALL, frame), Err(why), "{header:?}: {why}");
    }
    assert_eq!(read_frame(header(1, 0, 0, 34, 16), Offloads::NONE, &tcp4), Err(Refused::NotNegotiated));
}

#[test]
fn hints_and_unknown_flags_are_ignored() {
    let frame = Sample::of(Message::Udp, true).unfinished(&[7; 300]);
    let mut header = header(0xfb, GSO_UDP_L4, 100, 54, 6);
    header[2..4].copy_from_slice(&[0xff, 0xff]);
    let cut = Cut { message: Message::Udp, size: 100, start: 54, header: 8, ecn: false };
    assert_eq!(read_frame(header, Offloads::ALL, &frame), Ok(Offload::cut(cut).unwrap()));
    assert_eq!(read_frame([2, 0, 9, 9, 9, 9, 9, 9, 9, 9], Offloads::NONE, &frame), Ok(Offload::NONE));
}

#[test]
fn headers_behind_the_head_are_refused_and_options_may_end_there() {
    // 14 + 2 tags + 48 + 60 bytes are one less than a head has; a hop-by-hop header of 24 more bytes moves the options out of it.
    let sample = Sample { tags: 2, with_options: true, tcp_options: 10, ..Sample::of(Message::Tcp6, true) };
    let cut = sample.cut(100, false);
    let mut frame = sample.unfinished(&[7; 300]);
    let mut longer = |by: usize| {
        let options = usize::from(cut.start) - 8;
        frame[options + 1] = (by / 8) as u8;
        let at = options + 8;
        let mut longer = frame.clone();
        longer.splice(at..at, vec![1; by]);
        let len = (longer.len() - 22 - 40) as u16;
        longer[22 + 4..22 + 6].copy_from_slice(&len.to_be_bytes());
        read_frame(header(1, GSO_TCPV6, 100, u16::from(cut.start) + by as u16, 16), Offloads::ALL, &longer)
    };
    assert_eq!(longer(24), Ok(Offload::cut(Cut { start: cut.start + 24, ..cut }).unwrap()));
    assert_eq!(longer(56), Err(Refused::Headers));
}
