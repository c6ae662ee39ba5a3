//! Both ends of a tunnel: frames that go in come out, and nothing else does.

use packet::MacAddr;
use paflow::Reject;
use paflow::outer::{Addresses, Checksum, RouteError};
use paflow::vxlan::{Endpoints, Stray, TunnelEnd, source_port};
use proptest::prelude::*;

const V4: Addresses =
    Addresses::V4 { source: std::net::Ipv4Addr::new(192, 0, 2, 1), destination: std::net::Ipv4Addr::new(192, 0, 2, 2) };
const V6: Addresses = Addresses::V6 {
    source: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    destination: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

fn endpoints(addresses: Addresses, checksum: Checksum) -> Endpoints {
    let [source, destination] = [1, 2].map(|node| MacAddr([2, 0, 0, 0, 0, node]));
    Endpoints { source, destination, addresses, port: 4789, vni: 100, hop_limit: 64, checksum }
}

/// Returns the other end of the same tunnel.
fn opposite(e: &Endpoints) -> Endpoints {
    let addresses = match e.addresses {
        Addresses::V4 { source, destination } => Addresses::V4 { source: destination, destination: source },
        Addresses::V6 { source, destination } => Addresses::V6 { source: destination, destination: source },
    };
    Endpoints { source: e.destination, destination: e.source, addresses, ..*e }
}

fn ends(e: &Endpoints) -> (TunnelEnd, TunnelEnd) {
    (TunnelEnd::new(e, 1500).unwrap(), TunnelEnd::new(&opposite(e), 1500).unwrap())
}

fn sent(end: &TunnelEnd, frame: &[u8]) -> Vec<u8> {
    let mut headers = end.headers();
    // Earlier contents do not matter.
    end.complete(&mut headers, &[9; 77][..]);
    end.complete(&mut headers, frame);
    [&headers[..], frame].concat()
}

fn tunnels() -> impl Strategy<Value = Endpoints> {
    (prop_oneof![Just(V4), Just(V6)], prop_oneof![Just(Checksum::Zero), Just(Checksum::Computed)])
        .prop_map(|(addresses, checksum)| endpoints(addresses, checksum))
}

/// Builds a frame of 60 bytes with these addresses and ports.
fn udp(hosts: [u8; 2], fragment: u16, ports: [u16; 2]) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, hosts[1], 2, 0, 0, 0, 0, hosts[0], 8, 0, 0x45, 0, 0, 46, 0, 0][..]].concat();
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.resize(60, 0);
    frame
}

#[test]
fn bytes_of_the_rfc() {
    let (here, there) = ends(&endpoints(V4, Checksum::Zero));
    let frame = udp([1, 2], 0, [1000, 2000]);
    let mut wire = sent(&here, &frame);
    let port = std::mem::take(&mut wire[34]) as u16;
    assert!(port >= 0xc0, "a dynamic port");
    wire[35] = 0;
    let expected = [
        [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0].as_slice(),
        &[0x45, 0, 0, 96, 0, 0, 0x40, 0, 64, 17, 0xb6, 0x89, 192, 0, 2, 1, 192, 0, 2, 2],
        &[0, 0, 0x12, 0xb5, 0, 76, 0, 0],
        &[8, 0, 0, 0, 0, 0, 100, 0],
        &frame,
    ];
    assert_eq!(wire, expected.concat());
    assert_eq!((here.overhead(), here.room()), (50, 1464));
    assert_eq!(there.inside(&wire[..]), Ok((50, 110)));
    let (six, _) = ends(&endpoints(V6, Checksum::Computed));
    assert_eq!((six.overhead(), six.room()), (70, 1444));
}

#[test]
fn every_stray_has_its_reason() {
    let (here, there) = ends(&endpoints(V4, Checksum::Zero));
    let good = sent(&here, &[7; 60]);
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        // Correct the IPv4 header's checksum.
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
        there.inside(&frame[..])
    };
    assert_eq!(with(0, &[]), Ok((50, 110)));
    for (what, at, bytes) in [
        ("ARP", 12, &[8, 6][..]),
        ("TCP", 23, &[6]),
        ("another port", 36, &[0x12, 0xb6]),
        ("another source", 29, &[9]),
        ("another destination", 33, &[9]),
        ("a later fragment", 20, &[0, 1]),
        ("an impossible header", 14, &[0x44]),
    ] {
        assert_eq!(with(at, bytes), Err(Stray::Foreign), "{what}");
    }
    assert_eq!(with(46, &[0, 0, 101]), Err(Stray::OtherVni(101)));
    assert_eq!(with(42, &[0]), Err(Stray::Wrong(Reject::BadVxlanFlags(0))));
    assert_eq!(with(42, &[0xff, 1, 2, 3]), Ok((50, 110)), "what is reserved is ignored");
    assert_eq!(with(20, &[0x20, 0]), Err(Stray::Wrong(Reject::Fragmented)));
    assert!(matches!(with(16, &[0, 97]), Err(Stray::Wrong(Reject::Truncated { .. }))));
    assert!(matches!(with(16, &[0, 35]), Err(Stray::Wrong(Reject::Truncated { .. }))));
    assert!(matches!(with(16, &[0, 95]), Err(Stray::Wrong(Reject::LengthMismatch { .. }))));
    assert!(matches!(with(38, &[0, 75]), Err(Stray::Wrong(Reject::LengthMismatch { .. }))));
    assert_eq!(with(40, &[0, 1]), Err(Stray::Wrong(Reject::BadUdpChecksum)));
    let mut wrong = good.clone();
    wrong[24] ^= 1;
    assert_eq!(there.inside(&wrong[..]), Err(Stray::Wrong(Reject::BadIpChecksum)));
    assert_eq!(there.inside(&sent(&here, &[7; 13])[..]), Err(Stray::Wrong(Reject::Runt(13))));
}

#[test]
fn options_and_trailers_are_no_part_of_the_frame() {
    let (here, there) = ends(&endpoints(V4, Checksum::Zero));
    let mut frame = sent(&here, &[7; 60]);
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] = 0x46;
    frame[16..18].copy_from_slice(&100u16.to_be_bytes());
    frame[24..26].fill(0);
    let sum: u32 = frame[14..38].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    frame[24..26].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    frame.extend([0; 9]);
    assert_eq!(there.inside(&frame[..]), Ok((54, 114)));
}

#[test]
fn over_ipv6_no_checksum_is_as_good_as_a_right_one() {
    for checksum in [Checksum::Zero, Checksum::Computed] {
        let (here, there) = ends(&endpoints(V6, checksum));
        assert_eq!(there.inside(&sent(&here, &[7; 60])[..]), Ok((70, 130)), "{checksum:?}");
    }
}

#[test]
fn impossible_tunnels_are_refused() {
    let good = endpoints(V4, Checksum::Zero);
    assert_eq!(TunnelEnd::new(&Endpoints { vni: 1 << 24, ..good }, 1500).unwrap_err(), RouteError::Vni(1 << 24));
    assert_eq!(TunnelEnd::new(&Endpoints { port: 0, ..good }, 1500).unwrap_err(), RouteError::Port);
}

#[test]
fn flows_keep_their_source_port_and_spread() {
    let port = |hosts, fragment, ports| source_port(&udp(hosts, fragment, ports)[..]);
    assert_eq!(port([1, 2], 0, [5, 6]), port([1, 2], 0, [5, 6]));
    assert_eq!(port([1, 2], 0x2000, [5, 6]), port([1, 2], 100, [7, 8]), "fragments of one packet");
    let mut seen: Vec<u16> = (0..1000).map(|flow| port([1, 2], 0, [flow, 80])).collect();
    assert!(seen.iter().all(|&port| port >= 0xc000));
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 900, "{} ports for 1000 flows", seen.len());
    assert!(source_port(&[0u8; 3][..]) >= 0xc000, "a frame too short for headers");
}

proptest! {
    #[test]
    fn frames_leave_the_tunnel_as_they_entered_it(tunnel in tunnels(), frame in prop::collection::vec(any::<u8>(), 14..1445)) {
        let (here, there) = ends(&tunnel);
        let wire = sent(&here, &frame);
        let (start, end) = there.inside(&wire[..]).unwrap();
        prop_assert_eq!(&wire[start as usize..end as usize], &frame[..]);
        prop_assert_eq!(here.inside(&wire[..]), Err(Stray::Foreign), "it is not for its sender");
    }

    #[test]
    fn no_prefix_comes_out(
        tunnel in tunnels(),
        frame in prop::collection::vec(any::<u8>(), 14..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let (here, there) = ends(&tunnel);
        let wire = sent(&here, &frame);
        prop_assert!(there.inside(&wire[..cut.index(wire.len())]).is_err());
    }

    #[test]
    fn the_inner_frame_stays_inside_a_changed_one(
        tunnel in tunnels(),
        frame in prop::collection::vec(any::<u8>(), 14..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (here, there) = ends(&tunnel);
        let mut wire = sent(&here, &frame);
        for (at, byte) in changes {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        if let Ok((start, end)) = there.inside(&wire[..]) {
            prop_assert!(start >= here.overhead() && start + 14 <= end && end as usize <= wire.len());
        }
    }
}
