use crate::offload::sample::{ACK, CWR, FIN, PSH, Sample, naive};
use crate::offload::{Cut, MIN_SEGMENT, Message, Refused};
use crate::segmenter::{MAX_HEADERS, Segmenter};
use crate::{Cursor, Segment, checksum::Sum};
use proptest::prelude::*;

/// Cuts a frame that lies in pieces of these lengths and the rest.
fn cut(frame: &[u8], pieces: &[usize], cut: Cut) -> Result<Vec<Vec<u8>>, Refused> {
    let (mut segments, mut rest) = (Vec::new(), frame);
    for len in pieces {
        let (piece, behind) = rest.split_at((*len).min(rest.len()));
        segments.push(Segment::from(piece));
        rest = behind;
    }
    segments.push(Segment::from(rest));
    let segmenter = Segmenter::new(segments.iter().copied(), frame.len() as u32, cut)?;
    let mut at = Cursor::new(segments);
    at.skip(segmenter.headers_len() as u32);
    let mut room = [0xaa; MAX_HEADERS];
    let all = (0..segmenter.count()).map(|index| {
        let range = segmenter.payload(index);
        let part = at.take(range.len() as u32);
        let mut sum = Sum::new();
        part.clone().for_each(|piece| piece.add_to(&mut sum));
        let len = segmenter.write(index, sum, &mut room);
        let mut out = room[..len].to_vec();
        part.for_each(|piece| piece.read_pieces(|bytes| out.extend(bytes)));
        assert_eq!(out[len..], frame[range.start as usize..range.end as usize]);
        out
    });
    Ok(all.collect())
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 1000 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn segments_are_those_that_the_sender_would_have_sent(
        sample in Sample::any(),
        payload in prop::collection::vec(any::<u8>(), 1..if cfg!(miri) { 300 } else { 5000 }),
        size in MIN_SEGMENT..1500,
        ecn: bool,
        pieces in prop::collection::vec(0..200usize, 0..5),
    ) {
        let ecn = ecn && sample.message != Message::Udp;
        let expected = sample.segments(&payload, size.into(), ecn);
        let segments = cut(&sample.unfinished(&payload), &pieces, sample.cut(size, ecn)).unwrap();
        prop_assert_eq!(&segments, &expected);
        let headers = sample.cut(size, ecn);
        let headers = usize::from(headers.start) + usize::from(headers.header);
        prop_assert_eq!(segments.iter().flat_map(|segment| segment[headers..].to_vec()).collect::<Vec<_>>(), payload);
    }

    #[test]
    fn no_frame_causes_a_panic(
        frame in prop::collection::vec(any::<u8>(), 0..200),
        sample in Sample::any(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        size in MIN_SEGMENT..,
    ) {
        let wanted = sample.cut(size, false);
        let _ = cut(&frame, &[], wanted);
        let mut changed = sample.unfinished(&payload(300));
        let headers = usize::from(wanted.start) + usize::from(wanted.header);
        for (at, value) in changes {
            changed[at.index(headers)] = value;
        }
        if let Ok(segments) = cut(&changed, &[17], wanted) {
            // The IP checksum is never left to a receiver, as no offload covers it (and a zero is not one).
            let ip = 14 + 4 * sample.tags;
            prop_assert!(sample.is_version_6 || segments.iter().all(|segment| naive(&segment[ip..wanted.start.into()]) == 0));
        }
    }
}

#[test]
fn the_longest_message_is_cut_as_the_sender_asks_and_not_by_any_mtu() {
    let sample = Sample::of(Message::Tcp4, false);
    let payload = payload(if cfg!(miri) { 1000 } else { 65_535 - 20 - 32 });
    for size in [MIN_SEGMENT, 1448, 9000, u16::MAX] {
        let segments = cut(&sample.unfinished(&payload), &[], sample.cut(size, false)).unwrap();
        assert_eq!(segments.len(), payload.len().div_ceil(size.into()));
        assert_eq!(segments, sample.segments(&payload, size.into(), false), "size {size}");
    }
}

#[test]
fn flags_of_tcp_belong_to_one_segment() {
    let sample = Sample { flags: FIN | PSH | ACK | CWR, ..Sample::of(Message::Tcp6, true) };
    let flags = |ecn| {
        let segments = cut(&sample.unfinished(&payload(250)), &[], sample.cut(100, ecn)).unwrap();
        segments.iter().map(|segment| segment[14 + 40 + 13]).collect::<Vec<_>>()
    };
    assert_eq!(flags(true), [ACK | CWR, ACK, ACK | FIN | PSH]);
    // With accurate ECN, all segments repeat the flag.
    assert_eq!(flags(false), [ACK | CWR, ACK | CWR, ACK | CWR | FIN | PSH]);
}

#[test]
fn a_udp_checksum_is_never_zero_and_covers_the_addresses_of_ipv6() {
    let sample = Sample::of(Message::Udp, true);
    let mut payload = payload(200);
    // Makes the checksum of the first datagram zero.
    let first = |payload: &[u8]| sample.segments(payload, 100, false)[0][14 + 40 + 6..][..2].to_vec();
    payload[..2].copy_from_slice(&[0, 0]);
    let checksum = first(&payload);
    payload[..2].copy_from_slice(&checksum);
    let segments = cut(&sample.unfinished(&payload), &[], sample.cut(100, false)).unwrap();
    assert_eq!(segments[0][14 + 40 + 6..][..2], [0xff, 0xff]);
    for segment in segments {
        let pseudo = [&segment[22..54], &108u32.to_be_bytes(), &17u32.to_be_bytes(), &segment[54..]].concat();
        assert_eq!(naive(&pseudo), 0);
    }
}

#[test]
fn headers_that_changed_since_they_were_described_are_refused() {
    let sample = Sample { tags: 1, ..Sample::of(Message::Tcp4, false) };
    let (whole, wanted) = (sample.unfinished(&payload(500)), sample.cut(100, false));
    assert!(cut(&whole, &[60], wanted).is_ok());
    for (at, value, why) in [
        (12, 0x88, Refused::Headers),
        (16, 0x86, Refused::Headers),
        (18, 0x46, Refused::Mismatch),
        (18, 0x4f, Refused::Headers),
        (20, 1, Refused::Length),
        (21, 255, Refused::Headers),
        (24, 0x20, Refused::Headers),
        (27, 17, Refused::Mismatch),
        (27, 1, Refused::Headers),
        (38 + 12, 0x50, Refused::Mismatch),
        (38 + 12, 0xf0, Refused::Mismatch),
        (38 + 12, 0x40, Refused::Headers),
    ] {
        let mut changed = whole.clone();
        changed[at] = value;
        assert_eq!(cut(&changed, &[], wanted), Err(why), "byte {at} is {value:#x}");
    }
    assert_eq!(cut(&whole[..60], &[], wanted), Err(Refused::Headers));
    assert_eq!(cut(&[&whole[..], &[0]].concat(), &[], wanted), Err(Refused::Length));
}
