//! Actions on real packets: the right bytes change, and checksums stay correct.

use openflow::rewrite::Headers;
use openflow::{Action, CacheKey, Field, Key, Match, Undone};
use packet::ip_protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};
use proptest::prelude::*;

/// A packet that is changed: its headers, and all of it as it was.
struct Edited<'p> {
    headers: Headers,
    packet: &'p [u8],
}

impl<'p> Edited<'p> {
    fn new(packet: &'p [u8], tunnel_id: u64) -> Edited<'p> {
        Edited { headers: Headers::new(packet, packet.len(), tunnel_id), packet }
    }

    /// Applies an action. Returns false if the packet's time to live is over.
    fn apply(&mut self, action: &Action) -> bool {
        match self.try_apply(action) {
            Ok(()) => true,
            Err(Undone::Expired) => false,
            Err(Undone::TooDeep) => panic!("{action:?} is done too deep in the packet"),
        }
    }

    fn try_apply(&mut self, action: &Action) -> Result<(), Undone> {
        self.headers.apply(action, |at, room| room.copy_from_slice(&self.packet[at..at + room.len()]))
    }

    fn bytes(&self) -> &[u8] {
        self.headers.bytes()
    }

    /// Returns the packet as it is sent.
    fn sent(&self) -> Vec<u8> {
        [self.bytes(), &self.packet[self.headers.taken()..]].concat()
    }
}

/// Sums up parts as in RFC 1071: the sum is zero if the checksum in it is correct.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let sum: u64 = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    (sum % 0xffff) as u16
}

/// Builds a packet with correct checksums: IPv4 or IPv6, TCP, UDP or ICMPv6.
fn packet(v6: bool, protocol: u8, addresses: &[u8; 32], payload: &[u8]) -> Vec<u8> {
    let mut transport = vec![0; if protocol == 6 { 20 } else { 8 }];
    let (at, len) = match protocol {
        6 => (16, 20 + payload.len()),
        17 => (6, 8 + payload.len()),
        _ => (2, 8 + payload.len()),
    };
    transport[..4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
    if protocol == 17 {
        transport[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    } else if protocol == 58 {
        transport[2..4].fill(0);
    }
    transport.extend(payload);
    let addresses = if v6 { &addresses[..] } else { &addresses[..8] };
    let pseudo = [0, protocol, (len >> 8) as u8, len as u8];
    let checksum = match !sum(&[addresses, &pseudo, &transport]) {
        0 => 0xffff,
        checksum => checksum,
    };
    transport[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    let mut ip = if v6 {
        vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, protocol, 64]
    } else {
        let total = (len + 20) as u16;
        vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0, 0, 64, protocol, 0, 0]
    };
    ip.extend(addresses);
    if !v6 {
        let checksum = (!sum(&[&ip])).to_be_bytes();
        ip[10..12].copy_from_slice(&checksum);
    }
    let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2; 6][..], &[4; 6], &ethertype, &ip, &transport].concat()
}

fn check(frame: &[u8]) {
    let mut ip = 14;
    while frame[ip - 2..ip] == [0x81, 0] {
        ip += 4;
    }
    let (v6, protocol) = (frame[ip] >> 4 == 6, if frame[ip] >> 4 == 6 { frame[ip + 6] } else { frame[ip + 9] });
    let (addresses, transport) = if v6 {
        (&frame[ip + 8..ip + 40], &frame[ip + 40..])
    } else {
        assert_eq!(sum(&[&frame[ip..ip + 20]]), 0, "IPv4 header checksum");
        (&frame[ip + 12..ip + 20], &frame[ip + 20..])
    };
    let len = transport.len() as u16;
    assert_eq!(sum(&[addresses, &[0, protocol], &len.to_be_bytes(), transport]), 0, "transport checksum");
}

proptest! {
    #[test]
    fn checksums_stay_right(
        v6 in any::<bool>(),
        protocol in prop_oneof![Just(6u8), Just(17), Just(58)],
        addresses in any::<[u8; 32]>(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        values in prop::collection::vec(any::<u128>(), 13),
        ttl in 2u8..,
        tag in any::<bool>(),
    ) {
        let protocol = if protocol == 58 && !v6 { 6 } else { protocol };
        let original = packet(v6, protocol, &addresses, &payload);
        check(&original);
        let mut headers = Edited::new(&original, 0);
        let mut set = Vec::new();
        if tag {
            headers.apply(&Action::PushVlan(0x8100));
            set.extend([(Field::VlanVid, values[6] & 0xfff | 0x1000), (Field::VlanPcp, values[7] & 7)]);
        }
        set.extend([(Field::EthDst, values[0] & 0xffff_ffff_ffff), (Field::EthSrc, values[1] & 0xffff_ffff_ffff)]);
        set.extend(match v6 {
            true => [(Field::Ipv6Src, values[2]), (Field::Ipv6Dst, values[3])],
            false => [(Field::Ipv4Src, values[2] & 0xffff_ffff), (Field::Ipv4Dst, values[3] & 0xffff_ffff)],
        });
        match protocol {
            6 => set.extend([(Field::TcpSrc, values[4] & 0xffff), (Field::TcpDst, values[5] & 0xffff)]),
            17 => set.extend([(Field::UdpSrc, values[4] & 0xffff), (Field::UdpDst, values[5] & 0xffff)]),
            _ => set.extend([(Field::Icmpv6Type, values[4] & 0x7f), (Field::Icmpv6Code, values[5] & 0xff)]),
        }
        set.extend([(Field::IpDscp, values[8] & 0x3f), (Field::IpEcn, values[9] & 3)]);
        if v6 {
            set.push((Field::Ipv6Flabel, values[10] & 0xf_ffff));
        }
        for (field, value) in &set {
            headers.apply(&Action::SetField(*field, *value));
        }
        assert!(headers.apply(&Action::SetIpTtl(ttl)) && headers.apply(&Action::DecIpTtl));
        let changed = headers.sent();
        check(&changed);
        let ip = if tag { 18 } else { 14 };
        prop_assert_eq!(changed[ip + if v6 { 7 } else { 8 }], ttl - 1);
        let key = Key::extract(&changed, 1, 0).unwrap();
        for (field, value) in &set {
            prop_assert_eq!(key.get(*field), *value, "{:?}", field);
        }
        headers.apply(&Action::PopVlan);
        prop_assert_eq!(headers.sent().len(), original.len());
        prop_assert_eq!(Key::extract(headers.bytes(), 1, 0).unwrap().get(Field::VlanVid), 0);
    }
}

#[test]
fn tags_nest_and_keep_their_priority() {
    let original = packet(false, 17, &[9; 32], b"abc");
    let mut headers = Edited::new(&original, 0);
    headers.apply(&Action::PopVlan);
    headers.apply(&Action::SetField(Field::VlanVid, 0x1005));
    assert_eq!(headers.bytes(), original, "there is no tag to change");
    headers.apply(&Action::PushVlan(0x8100));
    headers.apply(&Action::SetField(Field::VlanVid, 0x1064));
    headers.apply(&Action::SetField(Field::VlanPcp, 5));
    headers.apply(&Action::PushVlan(0x88a8));
    assert_eq!(headers.bytes()[12..22], [0x88, 0xa8, 0xa0, 0x64, 0x81, 0, 0xa0, 0x64, 8, 0]);
    let key = Key::extract(headers.bytes(), 1, 0).unwrap();
    assert_eq!((key.get(Field::EthType), key.get(Field::UdpDst)), (0x0800, 0x5678), "behind both tags");
    let mut unending = [&[0; 12][..], &[0x81, 0, 0, 1].repeat(20)].concat();
    for len in (14..=unending.len()).rev() {
        unending.truncate(len);
        assert_eq!(Key::extract(&unending, 1, 0).is_some_and(|key| key.get(Field::VlanVid) != 0), len >= 18);
    }
    assert!((0..20).all(|_| headers.apply(&Action::PushVlan(0x8100))));
    assert!((0..20).all(|_| headers.apply(&Action::PopVlan)));
    assert_eq!(headers.bytes(), original);
}

#[test]
fn a_tag_that_the_packet_ends_in_is_none() {
    let packet = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[0x81, 0, 0, 7, 8]].concat();
    for len in 14..=packet.len() {
        let key = Key::extract(&packet[..len], 3, 0).unwrap();
        assert_eq!((key.get(Field::InPort), key.get(Field::EthDst)), (3, 0x0200_0000_0001));
        assert_eq!((key.get(Field::EthType), key.get(Field::VlanVid)), (0x8100, 0));
        let mut headers = Edited::new(&packet[..len], 0);
        headers.apply(&Action::PopVlan);
        assert_eq!(headers.bytes(), &packet[..len], "there is none to take off");
        assert!(headers.apply(&Action::PushVlan(0x8100)));
        headers.apply(&Action::PopVlan);
        assert_eq!(headers.bytes(), &packet[..len]);
    }
    assert!(Key::extract(&packet[..13], 3, 0).is_none());
}

#[test]
fn labels_nest_and_take_the_time_to_live_of_what_they_cover() {
    let original = packet(false, 17, &[9; 32], b"abc");
    let mut headers = Edited::new(&original, 0);
    let apply = |headers: &mut Edited, actions: &[Action]| actions.iter().all(|action| headers.apply(action));
    assert!(apply(
        &mut headers,
        &[Action::PopMpls(0x800), Action::SetMplsTtl(1), Action::DecMplsTtl, Action::CopyTtlIn]
    ));
    assert_eq!(headers.bytes(), original, "there is no label to change");
    let set = [Action::PushVlan(0x8100), Action::PushMpls(0x8847), Action::SetField(Field::MplsLabel, 0x12345)];
    assert!(apply(&mut headers, &set));
    assert_eq!(headers.bytes()[12..22], [0x81, 0, 0, 0, 0x88, 0x47, 0x12, 0x34, 0x51, 64], "the tag stays in front");
    let key = Key::extract(headers.bytes(), 1, 0).unwrap();
    let of = |key: &Key| [Field::EthType, Field::MplsLabel, Field::MplsTc, Field::MplsBos].map(|field| key.get(field));
    assert_eq!(of(&key), [0x8847, 0x12345, 0, 1]);
    assert!(apply(&mut headers, &[Action::SetField(Field::MplsTc, 5), Action::PushMpls(0x8848), Action::DecMplsTtl]));
    assert_eq!(headers.bytes()[18..26], [0x12, 0x34, 0x5a, 63, 0x12, 0x34, 0x5b, 64]);
    assert_eq!(of(&Key::extract(headers.bytes(), 1, 0).unwrap()), [0x8848, 0x12345, 5, 0]);
    // From label to label, and from the last one to IP and back.
    assert!(apply(&mut headers, &[Action::CopyTtlIn, Action::PopMpls(0x8847), Action::CopyTtlIn]));
    assert_eq!((headers.bytes()[21], headers.bytes()[30]), (63, 63));
    assert!(apply(&mut headers, &[Action::SetMplsTtl(9), Action::CopyTtlOut, Action::PopMpls(0x800), Action::PopVlan]));
    assert_eq!(headers.bytes()[22], 63);
    check(headers.bytes());
    let mut headers = Edited::new(&original, 0);
    assert!(apply(&mut headers, &[Action::SetIpTtl(2), Action::DecIpTtl]));
    assert!(!headers.apply(&Action::DecIpTtl), "its time is over");
    assert!(apply(&mut headers, &[Action::PushMpls(0x8847), Action::SetMplsTtl(1)]));
    assert!(!headers.apply(&Action::DecMplsTtl));
    // As many as there is room for.
    assert!((0..20).all(|_| headers.apply(&Action::PushMpls(0x8847))));
    assert!((0..20).all(|_| headers.apply(&Action::PopMpls(0x8847))));
}

#[test]
fn neighbours_addresses_are_read_and_set() {
    let arp = [&[2; 6][..], &[4; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[4; 6], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]]
        .concat();
    let solicitation = {
        let mut packet = packet(true, 58, &[0xfe; 32], &[&[0xfd; 16][..], &[1, 1, 4, 4, 4, 4, 4, 4]].concat());
        packet[54] = 135;
        packet[56..58].fill(0);
        let len = (packet.len() - 54) as u16;
        let checksum = !sum(&[&packet[22..54], &[0, 58], &len.to_be_bytes(), &packet[54..]]);
        packet[56..58].copy_from_slice(&checksum.to_be_bytes());
        packet
    };
    let advertisement = |option: u8| {
        let mut packet = solicitation.clone();
        (packet[54], packet[78]) = (136, option);
        packet
    };
    let of = |packet: &[u8], field: Field| Key::extract(packet, 1, 0).unwrap().get(field);
    assert_eq!(
        (of(&arp, Field::ArpOp), of(&arp, Field::ArpSpa), of(&arp, Field::ArpTpa)),
        (1, 0x0a00_0001, 0x0a00_0002)
    );
    assert_eq!((of(&arp, Field::ArpSha), of(&arp, Field::ArpTha)), (0x0404_0404_0404, 0));
    assert_eq!(of(&solicitation, Field::NdTarget), u128::from_be_bytes([0xfd; 16]));
    assert_eq!(of(&solicitation, Field::NdSll), 0x0404_0404_0404);
    assert_eq!((of(&advertisement(2), Field::NdTll), of(&advertisement(1), Field::NdTll)), (0x0404_0404_0404, 0));
    let changes = |packet: &[u8], set: &[(Field, u128)]| {
        let mut headers = Edited::new(packet, 0);
        assert!(set.iter().all(|(field, value)| headers.apply(&Action::SetField(*field, *value))));
        set.iter().for_each(|(field, value)| assert_eq!(of(headers.bytes(), *field), *value, "{field:?}"));
        headers.bytes().to_vec()
    };
    let addresses =
        [(Field::ArpOp, 2), (Field::ArpSha, 7), (Field::ArpTha, 8), (Field::ArpSpa, 9), (Field::ArpTpa, 10)];
    assert_eq!(changes(&arp, &addresses)[..14], arp[..14]);
    check(&changes(&solicitation, &[(Field::NdTarget, 5), (Field::NdSll, 6)]));
    let target = |value: u128| Match::any().with(Field::NdTarget, value, u128::MAX);
    let keys = [&solicitation, &changes(&solicitation, &[(Field::NdTarget, 1)])]
        .map(|packet| Key::extract(packet, 1, 0).unwrap());
    assert_eq!(
        keys.map(|key| (target(u128::from_be_bytes([0xfd; 16])).matches(&key), target(1).matches(&key))),
        [(true, false), (false, true)]
    );
    assert!(!keys[0].is(&keys[1]) && keys[0].is(&keys[0]));
    // Cut off, nothing behind the end is touched.
    for len in 14..solicitation.len() {
        let mut headers = Edited::new(&solicitation[..len], 0);
        assert!([Field::NdTarget, Field::NdSll].iter().all(|field| headers.apply(&Action::SetField(*field, 1))));
        Key::extract(headers.bytes(), 1, 0).unwrap();
    }
}

#[test]
fn udp_without_checksum_stays_without_and_tunnels_are_kept() {
    let mut original = packet(false, 17, &[9; 32], b"abc");
    original[40..42].fill(0);
    let mut headers = Edited::new(&original, 6);
    headers.apply(&Action::SetField(Field::UdpDst, 99));
    headers.apply(&Action::SetField(Field::TunnelId, 7));
    assert_eq!(
        (&headers.bytes()[36..38], &headers.bytes()[40..42], headers.headers.tunnel_id),
        (&[0, 99][..], &[0, 0][..], 7)
    );
}

#[test]
fn later_fragments_have_no_ports() {
    let mut original = packet(false, 17, &[9; 32], b"abc");
    original[21] = 5;
    let key = Key::extract(&original, 1, 0).unwrap();
    assert_eq!((key.get(Field::IpProto), key.get(Field::UdpSrc), key.get(Field::UdpDst)), (17, 0, 0));
    let mut headers = Edited::new(&original, 0);
    headers.apply(&Action::SetField(Field::UdpDst, 99));
    assert_eq!(headers.bytes(), original);
}

#[test]
fn ports_are_behind_ipv6_extension_headers() {
    let plain = packet(true, 17, &[9; 32], b"abc");
    let mut extended = plain.clone();
    // Destination options, then the first fragment, then UDP.
    extended[20] = 60;
    extended.splice(54..54, [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9]);
    let key = Key::extract(&extended, 1, 0).unwrap();
    assert_eq!((key.get(Field::IpProto), key.get(Field::UdpSrc)), (17, 0x1234));
    extended[65] = 9;
    assert_eq!(Key::extract(&extended, 1, 0).unwrap().get(Field::UdpSrc), 0);
    for cut in 0..extended.len() {
        let _ = Key::extract(&extended[..cut], 1, 0);
    }
}

/// Builds an extension header of this many bytes behind the first eight; they begin with `bytes`, and options fill the rest.
fn extension(bytes: &[u8], more: u8) -> Vec<u8> {
    let mut header = [&[0, more], bytes].concat();
    let left = 8 + 8 * usize::from(more) - header.len();
    if left > 0 {
        header.push(1);
        header.push(left as u8 - 2);
        header.resize(8 + 8 * usize::from(more), 0);
    }
    header
}

/// Puts extension headers into an IPv6 packet; each has its protocol.
fn extend(packet: &mut Vec<u8>, headers: &[(u8, Vec<u8>)]) {
    let mut next = packet[20];
    for (protocol, header) in headers.iter().rev() {
        let mut header = header.clone();
        header[0] = std::mem::replace(&mut next, *protocol);
        packet.splice(54..54, header);
    }
    packet[20] = next;
    let len = (packet.len() - 54) as u16;
    packet[18..20].copy_from_slice(&len.to_be_bytes());
}

proptest! {
    /// The checksum covers the last address of a routing header instead of the destination, until the packet is there, and a mobile
    /// node's home address instead of the source.
    #[test]
    fn checksums_stay_right_behind_extension_headers(
        protocol in prop_oneof![Just(6u8), Just(17), Just(58)],
        addresses in any::<[u8; 32]>(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        options in prop::collection::vec((any::<bool>(), 0u8..12), 0..3),
        routing in prop::option::of((0u8..3, 0u8..3, any::<[u8; 16]>())),
        home in prop::option::of(any::<[u8; 16]>()),
        [source, destination] in any::<[u128; 2]>(),
        ports in any::<[u8; 2]>(),
    ) {
        let mut original = packet(true, protocol, &addresses, &payload);
        let option = |(is_first, more): &(bool, u8)| {
            (if *is_first { HOP_BY_HOP } else { DESTINATION_OPTIONS }, extension(&[], *more))
        };
        let mut headers: Vec<_> = options.iter().map(option).collect();
        if let Some((kind, left, _)) = routing {
            let nodes = [[9; 16]; 2].concat();
            headers.push((ROUTING, extension(&[&[kind, left, 0, 0, 0, 0], &nodes[..]].concat(), 4)));
        }
        if home.is_some() {
            // An option of one byte is in front.
            headers.push((DESTINATION_OPTIONS, extension(&[&[0, 201, 16][..], &addresses[..16]].concat(), 2)));
        }
        extend(&mut original, &headers);
        let wire_destination = routing.filter(|(_, left, _)| *left > 0).map(|(_, _, node)| node);
        if let Some(node) = wire_destination {
            original[38..54].copy_from_slice(&node);
        }
        if let Some(care_of) = home {
            original[22..38].copy_from_slice(&care_of);
        }

        let mut edited = Edited::new(&original, 0);
        let [first, second] = match protocol {
            6 => [Field::TcpSrc, Field::TcpDst],
            17 => [Field::UdpSrc, Field::UdpDst],
            _ => [Field::Icmpv6Type, Field::Icmpv6Code],
        };
        let set = [
            (Field::Ipv6Src, source), (Field::Ipv6Dst, destination), (first, ports[0].into()), (second, ports[1].into())
        ];
        let transport = 54 + headers.iter().map(|(_, header)| header.len()).sum::<usize>();
        let is_far = original.len() > 256 && transport + 4 > 256;
        for (field, value) in set {
            let is_covered = match field {
                Field::Ipv6Src => home.is_none(),
                Field::Ipv6Dst => wire_destination.is_none(),
                _ => true,
            };
            match edited.try_apply(&Action::SetField(field, value)) {
                Ok(()) => prop_assert!(!(is_far && is_covered), "{:?} is set", field),
                Err(undone) => {
                    prop_assert_eq!(undone, Undone::TooDeep);
                    prop_assert!(original.len() > 256 && transport + 18 > 256, "{:?} is not set", field);
                    return Ok(());
                }
            }
        }
        let sent = edited.sent();
        prop_assert_eq!(sent.len(), original.len());
        prop_assert_eq!(&sent[22..54], &[source.to_be_bytes(), destination.to_be_bytes()].concat()[..]);
        prop_assert_eq!(&sent[54..transport], &original[54..transport]);
        let mut counted = sent[22..54].to_vec();
        if home.is_some() {
            counted[..16].copy_from_slice(&addresses[..16]);
        }
        if wire_destination.is_some() {
            counted[16..].copy_from_slice(&addresses[16..]);
        }
        let len = (sent.len() - transport) as u16;
        let pseudo = [&counted[..], &[0, protocol], &len.to_be_bytes()].concat();
        prop_assert_eq!(sum(&[&pseudo, &sent[transport..]]), 0);
        if protocol == 58 {
            prop_assert_eq!(&sent[transport..transport + 2], &ports);
        } else {
            prop_assert_eq!(&sent[transport..transport + 4], &[0, ports[0], 0, ports[1]]);
        }
    }
}

#[test]
fn what_is_behind_many_tags_and_labels_is_changed_when_they_are_gone() {
    let plain = packet(false, 6, &[9; 32], &[7; 200]);
    for count in [1, 9, 20, 27, 35] {
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5].repeat(count));
        let mut labelled = plain.clone();
        labelled.splice(14..14, [0, 0, 0x50, 64].repeat(count));
        labelled[12..14].copy_from_slice(&[0x88, 0x47]);
        for (original, pop, last) in
            [(tagged, Action::PopVlan, Action::PopVlan), (labelled, Action::PopMpls(0x8847), Action::PopMpls(0x0800))]
        {
            let mut edited = Edited::new(&original, 0);
            assert!((1..count).all(|_| edited.apply(&pop)) && edited.apply(&last));
            assert_eq!(edited.sent(), plain, "{count}");
            let set = [Action::SetField(Field::Ipv4Dst, 1), Action::SetField(Field::TcpDst, 2), Action::DecIpTtl];
            assert!(set.iter().all(|action| edited.apply(action)));
            let sent = edited.sent();
            check(&sent);
            assert_eq!((&sent[30..34], &sent[36..38], sent[22]), (&[0, 0, 0, 1][..], &[0, 2][..], 63));
            let key = edited.headers.key(1).unwrap();
            assert_eq!((key.get(Field::Ipv4Dst), key.get(Field::TcpDst)), (1, 2));
        }
    }
}

#[test]
fn a_frame_with_a_length_has_the_ethertype_of_its_snap_header() {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[0, 46]);
    assert_eq!(Key::extract(&frame, 1, 0).unwrap().get(Field::EthType), 0x05ff);
    assert_eq!(Key::extract(&frame[..13], 1, 0), None);

    let plain = packet(false, 6, &[9; 32], &[7; 100]);
    let mut original = plain.clone();
    original.splice(12..12, [0, 148, 0xaa, 0xaa, 3, 0, 0, 0]);
    for cut in 14..original.len() {
        let kind = Key::extract(&original[..cut], 1, 0).unwrap().get(Field::EthType);
        assert_eq!(kind, if cut < 22 { 0x05ff } else { 0x0800 });
    }
    let other = |at: usize| {
        let mut other = original.clone();
        other[at] ^= 1;
        Key::extract(&other, 1, 0).unwrap().get(Field::EthType)
    };
    assert!((14..20).all(|at| other(at) == 0x05ff), "another LLC header, or an organization's type");
    let key = Key::extract(&original, 1, 0).unwrap();
    assert_eq!((key.get(Field::TcpDst), key.get(Field::Ipv4Dst)), (0x5678, 0x0909_0909));
    let mut edited = Edited::new(&original, 0);
    let label = [Action::PushVlan(0x8100), Action::PushMpls(0x8847)];
    assert!(label.iter().all(|action| edited.apply(action)));
    assert_eq!(edited.bytes()[12..30], [0x81, 0, 0, 0, 0, 152, 0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0x47, 0, 0, 1, 64]);
    let set = [Action::PopMpls(0x0800), Action::PopVlan, Action::SetField(Field::Ipv4Dst, 1), Action::DecIpTtl];
    assert!(set.iter().all(|action| edited.apply(action)));
    let mut sent = edited.sent();
    assert_eq!(sent[..20], original[..20]);
    sent.drain(12..20);
    check(&sent);
}

/// Computes SCTP's checksum bit by bit, as it is sent.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let bit = |crc: u32, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0x82f6_3b78 };
    (!bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))).to_le_bytes()
}

proptest! {
    #[test]
    fn ports_of_sctp_are_set_with_the_checksum_of_all_behind_them(
        v6 in any::<bool>(),
        tag in any::<bool>(),
        options in prop::option::of(0u8..20),
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        ports in any::<[u16; 2]>(),
    ) {
        // The same header as that of another protocol, with SCTP's instead of the first bytes of its payload.
        let mut original = packet(v6, 132, &[7; 32], &[&[0; 4][..], &payload].concat());
        if let Some(more) = options.filter(|_| v6) {
            extend(&mut original, &[(DESTINATION_OPTIONS, extension(&[], more))]);
        }
        let start = original.len() - payload.len() - 12;
        original[start + 8..start + 12].fill(0);
        let checksum = crc32c(&original[start..]);
        original[start + 8..start + 12].copy_from_slice(&checksum);
        // Ethernet pads short packets.
        original.extend([0; 3]);
        let mut headers = Edited::new(&original, 0);
        if tag {
            headers.apply(&Action::PushVlan(0x8100));
        }
        for (field, port) in [(Field::SctpSrc, ports[0]), (Field::SctpDst, ports[1])] {
            headers.apply(&Action::SetField(field, port.into()));
        }
        let mut changed = headers.sent();
        let start = start + if tag { 4 } else { 0 };
        prop_assert_eq!(&changed[start..start + 4], &ports.map(u16::to_be_bytes).concat());
        let came: [u8; 4] = changed[start + 8..start + 12].try_into().unwrap();
        changed[start + 8..start + 12].fill(0);
        prop_assert_eq!(came, crc32c(&changed[start..changed.len() - 3]));
    }
}

#[test]
fn ports_of_sctp_stay_where_the_checksum_can_not_be_known() {
    let mut first = packet(false, 132, &[7; 32], &[0; 40]);
    // More fragments follow.
    first[20] = 0x20;
    let mut headers = Edited::new(&first, 0);
    headers.apply(&Action::SetField(Field::SctpSrc, 9));
    assert_eq!(headers.bytes(), first);
}

#[test]
fn a_drop_precedence_is_raised_within_its_class() {
    let raised = |v6: bool, before: u128, levels: u8| {
        let original = packet(v6, 17, &[1; 32], b"payload!");
        let mut headers = Edited::new(&original, 0);
        headers.apply(&Action::SetField(Field::IpDscp, before));
        headers.headers.raise_drop_precedence(levels);
        let changed = headers.sent();
        check(&changed);
        Key::extract(&changed, 1, 0).unwrap().get(Field::IpDscp)
    };
    for v6 in [false, true] {
        // AF21 to AF22 and AF23, the last level, and AF41 to AF42.
        assert_eq!([raised(v6, 18, 1), raised(v6, 18, 2), raised(v6, 22, 1), raised(v6, 34, 1)], [20, 22, 22, 36]);
        // Best effort, class selectors and expedited forwarding have no drop precedence.
        assert_eq!([raised(v6, 0, 1), raised(v6, 16, 1), raised(v6, 46, 1)], [0, 16, 46]);
    }
    let mut arp = Edited::new(&[0; 60], 0);
    arp.headers.raise_drop_precedence(1);
    assert_eq!(arp.bytes(), [0; 60]);
}
