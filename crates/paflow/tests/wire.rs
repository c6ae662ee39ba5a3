//! Written aggregates can be read again, fit the MTU, and follow the RFCs; anything else is rejected.

mod common;

use common::{aggregates, packets, routes};
use packet::MacAddr;
use paflow::decode::{Tail, locate};
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::receive::Found;
use paflow::{Aggregate, Piece, Receiver, Reject};
use proptest::prelude::*;

/// RFC 1071 over an even or odd number of bytes.
fn ones(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let sum: u64 = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    (sum % 0xffff) as u16
}

/// Checks the headers of a UDP packet without the crate's own code.
fn check_outer(frame: &[u8], tunnel: &Tunnel) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let udp = match tunnel.addresses {
        Addresses::V4 { .. } => {
            assert_eq!((word(12), frame[14], frame[23]), (0x0800, 0x45, 17));
            assert_eq!(word(16) as usize, frame.len() - 14);
            assert_eq!(ones(&[&frame[14..34]]), 0, "IPv4 header checksum");
            34
        }
        Addresses::V6 { .. } => {
            assert_eq!((word(12), frame[14] >> 4, frame[20]), (0x86dd, 6, 17));
            assert_eq!(word(18) as usize, frame.len() - 54);
            54
        }
    };
    assert_eq!((word(udp), word(udp + 2)), (tunnel.source_port, tunnel.destination_port));
    assert_eq!(word(udp + 4) as usize, frame.len() - udp);
    match tunnel.checksum {
        Checksum::Zero => assert_eq!(word(udp + 6), 0),
        Checksum::Computed => {
            assert_ne!(word(udp + 6), 0);
            let addresses = if udp == 34 { &frame[26..34] } else { &frame[22..54] };
            let len = frame[udp + 4..udp + 6].to_vec();
            assert_eq!(ones(&[addresses, &[0, 17], &len, &frame[udp..]]), 0, "UDP checksum");
        }
    }
}

/// Returns the frame without its tag, which must be that of `route`.
fn untagged(frame: &[u8], route: &Route) -> Vec<u8> {
    let Some(vid) = route.vlan else { return frame.to_vec() };
    assert_eq!(frame[12..16], [0x81, 0, (vid >> 8) as u8, vid as u8]);
    [&frame[..12], &frame[16..]].concat()
}

/// An aggregate and its packets.
type Split<'a> = (Found, Vec<&'a [u8]>);

fn split(frame: &[u8]) -> Result<Option<Split<'_>>, Reject> {
    let Some(found) = Receiver::default().find(frame)? else { return Ok(None) };
    let mut pieces = [Piece::default(); 300];
    let number = locate(frame, found.range, found.tail, &mut pieces)?;
    let packets: Vec<_> =
        pieces[..number].iter().map(|piece| &frame[piece.start as usize..][..piece.len as usize]).collect();
    let aggregate = Aggregate::parse(&frame[found.range.start..found.range.end], found.tail).unwrap();
    assert_eq!(aggregate.number() as usize, number);
    assert!(aggregate.packets().eq(packets.iter().copied()));
    Ok(Some((found, packets)))
}

proptest! {
    #[test]
    fn what_is_written_is_read(route in routes(), mtu in 300u16..9000, packets in packets()) {
        let mut seen = 0;
        for (frame, members) in aggregates(&route, mtu, &packets) {
            let plain = untagged(&frame, &route);
            prop_assert!(plain.len() <= mtu as usize + 14, "MTU");
            prop_assert_eq!((&frame[..6], &frame[6..12]), (&route.destination.0[..], &route.source.0[..]));
            let (found, split) = split(&frame).unwrap().unwrap();
            prop_assert!(split.iter().copied().eq(members.iter().map(|&index| &packets[index][..])));
            seen += members.len();
            match route.carrier {
                Carrier::Ethernet => prop_assert_eq!(found.addresses, None),
                Carrier::Udp(tunnel) => check_outer(&plain, &tunnel),
                Carrier::Vxlan { tunnel, vni, .. } => {
                    check_outer(&plain, &tunnel);
                    prop_assert_eq!(found.vni, Some(vni));
                    prop_assert_eq!(paflow::table::key::vni(&frame[..], 4789), Some(vni));
                }
            }
        }
        prop_assert_eq!(seen, packets.len());
    }

    #[test]
    fn no_prefix_is_taken(route in routes(), packets in packets(), cut in any::<prop::sample::Index>()) {
        for (frame, _) in aggregates(&route, 1500, &packets) {
            let cut = cut.index(frame.len());
            prop_assert!(matches!(split(&frame[..cut]), Ok(None) | Err(_)), "cut at {}", cut);
        }
    }

    #[test]
    fn lies_about_numbers_and_lengths_are_refused(packets in packets(), lie in 1u16..40) {
        let route = Route { source: MacAddr([0; 6]), destination: MacAddr([0; 6]), vlan: None, routed: false, carrier: Carrier::Ethernet };
        let (frame, members) = aggregates(&route, 9000, &packets).remove(0);
        let exact = |bytes: &[u8]| Aggregate::parse(bytes, Tail::Exact).map(|aggregate| aggregate.number());
        let honest = &frame[14..];
        prop_assert_eq!(exact(honest), Ok(members.len() as u16));

        let mut more = honest.to_vec();
        more[2..4].copy_from_slice(&(members.len() as u16 + lie).to_be_bytes());
        prop_assert_eq!(exact(&more).unwrap_err().name(), "truncated");

        if let Some(fewer) = (members.len() as u16).checked_sub(lie) {
            let mut less = honest.to_vec();
            less[2..4].copy_from_slice(&fewer.to_be_bytes());
            let expected = matches!(exact(&less), Err(Reject::LengthMismatch { .. } | Reject::Empty));
            prop_assert!(expected);
        }

        let last = packets[*members.last().unwrap()].len();
        let at = honest.len() - last - last % 2 - 2;
        let mut long = honest.to_vec();
        long[at..at + 2].copy_from_slice(&(last as u16 + lie * 2).to_be_bytes());
        prop_assert_eq!(exact(&long).unwrap_err().name(), "truncated");
        let mut short = honest.to_vec();
        short[at..at + 2].copy_from_slice(&(last as u16).saturating_sub(lie * 2).to_be_bytes());
        prop_assert!(exact(&short).is_err());

        let trailing = [honest, &vec![0; lie as usize]].concat();
        prop_assert_eq!(exact(&trailing).unwrap_err().name(), "length-mismatch");
    }

    #[test]
    fn pieces_stay_inside_a_changed_aggregate(
        route in routes(),
        packets in packets(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (mut frame, _) in aggregates(&route, 1500, &packets) {
            for (at, value) in &changes {
                let at = at.index(frame.len());
                frame[at] = *value;
            }
            if let Ok(Some((found, split))) = split(&frame) {
                let sum: usize = split.iter().map(|packet| 2 + packet.len().next_multiple_of(2)).sum();
                prop_assert!(sum + 4 <= found.range.end - found.range.start);
                prop_assert!(split.iter().all(|packet| packet.len() >= 14));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0usize..4) {
        let mut bytes = bytes;
        let start: &[u8] = [&[0x88, 0xb5][..], &[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 1, 8, 0, 0x46]][kind];
        if let Some(to) = bytes.get_mut(12..12 + start.len()) {
            to.copy_from_slice(start);
        }
        let _ = split(&bytes);
        let _ = Aggregate::parse(&bytes, Tail::Exact);
        let _ = (paflow::table::key::vid(&bytes[..]), paflow::table::key::vni(&bytes[..], 4789));
    }

    #[test]
    fn a_flipped_bit_under_a_checksum_is_seen(
        tunnel in common::tunnels(), packets in packets(), bit in any::<prop::sample::Index>()
    ) {
        let tunnel = Tunnel { checksum: Checksum::Computed, ..tunnel };
        let route = Route { source: MacAddr([0; 6]), destination: MacAddr([0; 6]), vlan: None, routed: false, carrier: Carrier::Udp(tunnel) };
        let (mut frame, _) = aggregates(&route, 1500, &packets).remove(0);
        let payload = if let Addresses::V4 { .. } = tunnel.addresses { 42 } else { 62 };
        let bit = bit.index((frame.len() - payload) * 8);
        frame[payload + bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(split(&frame).unwrap_err(), Reject::BadUdpChecksum);
    }
}

fn v4(checksum: Checksum) -> Route {
    let addresses = Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let tunnel = Tunnel { addresses, source_port: 49_152, destination_port: 50_261, hop_limit: 64, checksum };
    let [source, destination] = [1, 2].map(|node| MacAddr([2, 0, 0, 0, 0, node]));
    Route { source, destination, vlan: None, routed: false, carrier: Carrier::Udp(tunnel) }
}

#[test]
fn bytes_of_the_specification() {
    let packets = [vec![0x11; 14], vec![0x22; 15]];
    let (frame, _) = aggregates(&v4(Checksum::Zero), 1500, &packets).remove(0);
    #[rustfmt::skip]
    let expected = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
        0x45, 0, 0, 66, 0, 0, 0x40, 0, 64, 17, 0x26, 0xa9, 10, 0, 0, 1, 10, 0, 0, 2,
        0xc0, 0, 0xc4, 0x55, 0, 46, 0, 0,
        1, 1, 0, 2,
        0, 14, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
        0, 15, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0,
    ];
    assert_eq!(frame, expected);
}

#[test]
fn every_reason_has_its_case() {
    let packets = [vec![0x11; 14], vec![0x22; 15]];
    let (frame, _) = aggregates(&v4(Checksum::Zero), 1500, &packets).remove(0);
    let with = |changes: &[(usize, u8)]| {
        let mut frame = frame.clone();
        changes.iter().for_each(|&(at, value)| frame[at] = value);
        split(&frame).unwrap_err()
    };
    assert_eq!(with(&[(42, 2)]), Reject::UnknownVersion(2));
    assert_eq!(with(&[(43, 9)]), Reject::UnknownType(9));
    assert_eq!(with(&[(45, 0)]), Reject::Empty);
    assert_eq!(with(&[(44, 9)]), Reject::TooMany { number: 0x902, room: 300 });
    assert_eq!(with(&[(45, 3)]), Reject::Truncated { needed: 82, there: 80 });
    assert_eq!(with(&[(45, 1)]), Reject::LengthMismatch { expected: 62, there: 80 });
    assert_eq!(with(&[(47, 13)]), Reject::Runt(13));
    assert_eq!(with(&[(79, 1)]), Reject::BadPadding(79));
    assert_eq!(with(&[(39, 45)]), Reject::LengthMismatch { expected: 79, there: 80 });
    assert_eq!(with(&[(25, 0)]), Reject::BadIpChecksum);
    assert_eq!(with(&[(20, 0x60), (24, 0x06)]), Reject::Fragmented);
    assert_eq!(with(&[(41, 1)]), Reject::BadUdpChecksum);
    // A frame to another port, or a later fragment, is ordinary traffic.
    let mut other = frame.clone();
    other[37] = 0x56;
    assert_eq!(split(&other), Ok(None));
    other = frame.clone();
    other[21] = 1;
    assert_eq!(split(&other), Ok(None));
}

#[test]
fn vxlan_flags() {
    let Carrier::Udp(tunnel) = v4(Checksum::Zero).carrier else { unreachable!() };
    let tunnel = Tunnel { destination_port: 4789, ..tunnel };
    let carrier = Carrier::Vxlan { tunnel, vni: 9, source: MacAddr([2; 6]), destination: MacAddr([4; 6]) };
    let (mut frame, _) = aggregates(&Route { carrier, ..v4(Checksum::Zero) }, 1500, &[vec![0; 60]]).remove(0);
    frame[42] = 0xff;
    assert_eq!(split(&frame).unwrap().unwrap().0.vni, Some(9), "reserved flags are ignored");
    frame[42] = 0;
    assert_eq!(split(&frame).unwrap_err(), Reject::BadVxlanFlags(0));
    // Any other frame inside VXLAN is ordinary traffic.
    frame[63] = 0xb6;
    assert_eq!(split(&frame), Ok(None));
}

#[test]
fn ipv6_without_checksum_is_a_choice_of_the_receiver() {
    let addresses = Addresses::V6 { source: 1.into(), destination: 2.into() };
    let Carrier::Udp(tunnel) = v4(Checksum::Zero).carrier else { unreachable!() };
    let route = Route { carrier: Carrier::Udp(Tunnel { addresses, ..tunnel }), ..v4(Checksum::Zero) };
    let (frame, _) = aggregates(&route, 1500, &[vec![0; 60]]).remove(0);
    assert!(split(&frame).is_ok());
    let strict = Receiver { zero_checksum_over_ipv6: false, ..Receiver::default() };
    assert_eq!(strict.find(&frame[..]), Err(Reject::NoUdpChecksum));
}

#[test]
fn short_ethernet_frames_may_be_padded_with_zeros_only() {
    let route = Route {
        source: MacAddr([0; 6]),
        destination: MacAddr([0; 6]),
        vlan: None,
        routed: false,
        carrier: Carrier::Ethernet,
    };
    let (mut frame, _) = aggregates(&route, 1500, &[vec![0x33; 16]]).remove(0);
    frame.resize(60, 0);
    assert_eq!(split(&frame).unwrap().unwrap().1, [&[0x33; 16]]);
    frame[59] = 1;
    assert_eq!(split(&frame).unwrap_err(), Reject::BadPadding(59));
    frame[59] = 0;
    frame.push(0);
    assert!(matches!(split(&frame).unwrap_err(), Reject::LengthMismatch { .. }));
}

#[test]
fn an_ipv4_frame_with_ethernet_trailer_is_taken() {
    let (mut frame, _) = aggregates(&v4(Checksum::Computed), 1500, &[vec![1; 60], vec![2; 60]]).remove(0);
    frame.extend([0xee; 7]);
    assert_eq!(split(&frame).unwrap().unwrap().1.len(), 2);
}
