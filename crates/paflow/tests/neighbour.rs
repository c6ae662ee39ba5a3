//! Requests are answered as the RFCs specify, and nothing else is.

use packet::MacAddr;
use paflow::neighbour::Station;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);
const THEIRS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
/// The multicast group and MAC address for solicitations of [`V6`].
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff12, 0x3456);
const GROUP_MAC: [u8; 6] = [0x33, 0x33, 0xff, 0x12, 0x34, 0x56];

fn station() -> Station {
    Station { mac: MacAddr(MAC), addresses: vec![V4.into(), V6.into()], vlans: vec![None, Some(7)] }
}

fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let station = station();
    station.may_be_asked(frame).then(|| station.answer(frame)).flatten().map(|answer| answer.to_vec())
}

fn ethernet(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &ASKER, &ethertype.to_be_bytes(), payload].concat()
}

fn arp(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let message = [&[0, 1, 8, 0, 6, 4, 0, 1], &ASKER[..], &sender.octets(), &[0; 6], &target.octets()].concat();
    ethernet([0xff; 6], 0x0806, &message)
}

/// RFC 1071 over the pseudo header and the message.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let len = [0, 0, (message.len() >> 8) as u8, message.len() as u8, 0, 0, 0, 58];
    let all = [&source.octets(), &destination.octets(), &len[..], message].concat();
    let mut sum: u32 = all.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Builds a solicitation with these options; `spoil` changes the message before its checksum is computed.
fn solicitation(
    (mac, source, destination): ([u8; 6], Ipv6Addr, Ipv6Addr),
    options: &[u8],
    spoil: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut message = [&[135, 0, 0, 0, 0, 0, 0, 0], &V6.octets()[..], options].concat();
    spoil(&mut message);
    let sum = checksum(source, destination, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let len = (message.len() as u16).to_be_bytes();
    let header = [&[0x60, 0, 0, 0, len[0], len[1], 58, 255], &source.octets()[..], &destination.octets()].concat();
    ethernet(mac, 0x86dd, &[header, message].concat())
}

/// Returns the option with the requester's link-layer address.
fn asker() -> Vec<u8> {
    [&[1, 1], &ASKER[..]].concat()
}

fn usual() -> Vec<u8> {
    solicitation((GROUP_MAC, THEIRS, GROUP), &asker(), |_| ())
}

/// Returns an advertisement's destination, destination MAC address and flags.
fn advertised(frame: &[u8]) -> (Ipv6Addr, [u8; 6], u8) {
    let ip = &frame[14..54];
    let [source, destination] = [8, 24].map(|at| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
    let message = &frame[54..];
    assert_eq!((&frame[6..12], &frame[12..14], source), (&MAC[..], &[0x86, 0xdd][..], V6));
    assert_eq!(ip[..8], [0x60, 0, 0, 0, 0, 32, 58, 255]);
    assert_eq!((message.len(), checksum(source, destination, message)), (32, 0));
    assert_eq!((&message[..2], &message[8..24]), (&[136, 0][..], &V6.octets()[..]));
    assert_eq!(message[24..], [&[2, 1], &MAC[..]].concat());
    (destination, frame[..6].try_into().unwrap(), message[4])
}

#[test]
fn an_arp_request_is_answered() {
    let theirs = Ipv4Addr::new(192, 0, 2, 9);
    let reply = answer(&arp(theirs, V4)).unwrap();
    assert_eq!((&reply[..6], &reply[6..12], &reply[12..14]), (&ASKER[..], &MAC[..], &[8, 6][..]));
    let said = [&[0, 1, 8, 0, 6, 4, 0, 2], &MAC[..], &V4.octets(), &ASKER, &theirs.octets()].concat();
    assert_eq!((&reply[14..42], reply.len()), (&said[..], 60));
    // A probe for a free address (RFC 5227) has no sender address.
    assert!(answer(&arp(Ipv4Addr::UNSPECIFIED, V4)).is_some());
    // A requester that already knows the MAC address sends unicast.
    let mut unicast = arp(theirs, V4);
    unicast[..6].copy_from_slice(&MAC);
    assert!(answer(&unicast).is_some());
    unicast[..6].copy_from_slice(&ASKER);
    assert!(answer(&unicast).is_none());
}

#[test]
fn other_arp_is_not_answered() {
    let theirs = Ipv4Addr::new(192, 0, 2, 9);
    assert!(answer(&arp(theirs, theirs)).is_none());
    assert!(answer(&arp(theirs, Ipv4Addr::new(192, 0, 2, 2))).is_none());
    assert!(answer(&arp(V4, V4)).is_none(), "an announcement");
    // A reply, another hardware type, another protocol, other lengths, and a group as sender.
    for (at, byte) in [(21, 2), (15, 6), (16, 9), (18, 8), (19, 16), (22, 3)] {
        let mut frame = arp(theirs, V4);
        frame[at] = byte;
        assert!(answer(&frame).is_none(), "byte {at}");
    }
}

#[test]
fn a_solicitation_is_answered() {
    assert_eq!(advertised(&answer(&usual()).unwrap()), (THEIRS, ASKER, 0x60));
    // Unicast, and then often without the option.
    let alone = solicitation((MAC, THEIRS, V6), &[], |_| ());
    assert_eq!(advertised(&answer(&alone).unwrap()), (THEIRS, ASKER, 0x60));
    // Other options are ignored.
    let nonce = [&[14, 1, 1, 2, 3, 4, 5, 6][..], &asker(), &[200, 2], &[0; 14]].concat();
    assert!(answer(&solicitation((GROUP_MAC, THEIRS, GROUP), &nonce, |_| ())).is_some());
    // A node that wants the address (RFC 4862) must learn that it is taken.
    let wanted = solicitation((GROUP_MAC, Ipv6Addr::UNSPECIFIED, GROUP), &[], |_| ());
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    assert_eq!(advertised(&answer(&wanted).unwrap()), (all, [0x33, 0x33, 0, 0, 0, 1], 0x20));
}

#[test]
fn invalid_solicitations_are_not_answered() {
    let ask = |options: &[u8]| solicitation((GROUP_MAC, THEIRS, GROUP), options, |_| ());
    let other = |at: usize, byte: u8| solicitation((GROUP_MAC, THEIRS, GROUP), &asker(), |m| m[at] = byte);
    let changed = |at: usize, byte: u8| {
        let mut frame = usual();
        frame[at] = byte;
        frame
    };
    let from = |source, options: &[u8]| solicitation((GROUP_MAC, source, GROUP), options, |_| ());
    let cases = [
        ("hop limit", changed(21, 254)),
        ("protocol", changed(20, 17)),
        ("version", changed(14, 0x40)),
        ("checksum", changed(60, 1)),
        ("length", changed(19, 31)),
        ("too long", changed(19, 40)),
        ("type", other(0, 136)),
        ("code", other(1, 1)),
        ("target", other(23, 0)),
        ("option without length", ask(&[[1, 0], [0, 0], [0, 0], [0, 0]].concat())),
        ("option beyond the end", ask(&[[1, 2], [0, 0], [0, 0], [0, 0]].concat())),
        ("a group's address", ask(&[1, 1, 1, 0, 0, 0, 0, 1])),
        ("from a group", from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5), &asker())),
        ("from the address itself", from(V6, &asker())),
        ("from nobody, with an address", from(Ipv6Addr::UNSPECIFIED, &asker())),
        ("from nobody, to the address", solicitation((MAC, Ipv6Addr::UNSPECIFIED, V6), &[], |_| ())),
        (
            "to another group",
            solicitation((GROUP_MAC, THEIRS, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)), &[], |_| ()),
        ),
    ];
    for (what, frame) in cases {
        assert!(answer(&frame).is_none(), "{what}");
    }
}

#[test]
fn answers_are_in_the_vlan_of_the_question() {
    let tagged = |frame: Vec<u8>, tag: [u8; 4]| [&frame[..12], &tag, &frame[12..]].concat();
    for frame in [arp(Ipv4Addr::new(192, 0, 2, 9), V4), usual()] {
        let plain = answer(&frame).unwrap();
        let in_vlan = answer(&tagged(frame.clone(), [0x81, 0, 0, 7])).unwrap();
        assert_eq!(in_vlan, tagged(plain.clone(), [0x81, 0, 0, 7]));
        // A priority tag (VID 0) counts as no tag.
        assert_eq!(answer(&tagged(frame.clone(), [0x81, 0, 0xe0, 0])).unwrap(), plain);
        assert!(answer(&tagged(frame.clone(), [0x81, 0, 0, 8])).is_none(), "another VLAN");
        assert!(answer(&tagged(tagged(frame, [0x81, 0, 0, 7]), [0x81, 0, 0, 7])).is_none(), "two tags");
    }
}

proptest! {
    #[test]
    fn truncated_requests_are_not_answered(cut in any::<prop::sample::Index>()) {
        for frame in [arp(Ipv4Addr::new(192, 0, 2, 9), V4), usual()] {
            prop_assert!(answer(&frame[..cut.index(frame.len())]).is_none());
        }
    }

    /// No bit may differ in the message, or in the header fields that its checksum covers.
    #[test]
    fn a_flipped_bit_is_seen(bit in any::<prop::sample::Index>()) {
        let mut frame = usual();
        let bit = bit.index((frame.len() - 22) * 8);
        frame[22 + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(answer(&frame).is_none());
    }

    #[test]
    fn answers_to_changed_requests_go_to_one_requester(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        v6: bool,
    ) {
        let mut frame = if v6 { usual() } else { arp(Ipv4Addr::new(192, 0, 2, 9), V4) };
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Some(answer) = answer(&frame) {
            prop_assert!(answer.len() >= 60 && answer.len() <= 90);
            prop_assert_eq!(&answer[6..12], &MAC[..]);
            prop_assert!(answer[0] & 1 == 0 || answer[..6] == [0x33, 0x33, 0, 0, 0, 1]);
        }
    }
}
