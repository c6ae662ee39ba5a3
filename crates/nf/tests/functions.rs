//! The sample network functions, on frames that etherparse builds and parses.

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, Icmpv4Slice, Icmpv4Type, Ipv4HeaderSlice, NetSlice,
    PacketBuilder, SlicedPacket, TransportSlice, icmpv4,
};
use nf::function::{Dropped, Frame, Interface, Responder, Router, RouterWorker, SharedRouter, Surroundings};
use nf::wire::MacAddr;
use proptest::prelude::*;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const US_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const OUR_IP: [u8; 4] = [10, 0, 1, 1];
const OUR_IP_B: [u8; 4] = [10, 0, 2, 1];
const ALICE_IP: [u8; 4] = [10, 0, 1, 10];
const BOB_IP: [u8; 4] = [10, 0, 2, 11];

fn echo_request(to: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(ALICE.0, US.0).ipv4(ALICE_IP, to, ttl).icmpv4_echo_request(7, 9);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn udp(to: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(ALICE.0, US.0)
        .ipv4(ALICE_IP, to, ttl)
        .udp(1000, 2000)
        .write(&mut frame, b"hello")
        .unwrap();
    frame
}

fn arp(operation: ArpOperation, from: (MacAddr, [u8; 4]), to: (MacAddr, [u8; 4]), link: MacAddr) -> Vec<u8> {
    let (hardware, protocol) = (ArpHardwareId::ETHERNET, EtherType::IPV4);
    let message = ArpPacket::new(hardware, protocol, operation, &from.0.0, &from.1, &to.0.0, &to.1).unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(from.0.0, link.0).arp(message).write(&mut frame).unwrap();
    frame.resize(60, 0);
    frame
}

fn arp_request(for_ip: [u8; 4]) -> Vec<u8> {
    arp(ArpOperation::REQUEST, (ALICE, ALICE_IP), (MacAddr::default(), for_ip), MacAddr::BROADCAST)
}

/// Returns the IPv4 header of a frame, after checking its checksum.
fn ip_of(frame: &[u8]) -> Ipv4HeaderSlice<'_> {
    let header = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap();
    assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
    header
}

/// Returns the ICMP message of a frame, after checking its checksums.
fn icmp_of(frame: &[u8]) -> Icmpv4Slice<'_> {
    ip_of(frame);
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = sliced.transport else { panic!("no ICMP in {sliced:?}") };
    assert!(icmp.icmp_type().calc_checksum(icmp.payload()) == icmp.checksum());
    icmp
}

fn addresses(frame: &[u8]) -> ([u8; 6], [u8; 6]) {
    (frame[..6].try_into().unwrap(), frame[6..12].try_into().unwrap())
}

fn answer(frame: &mut [u8]) -> bool {
    Responder::new(US, vec![OUR_IP.into(), [10, 0, 1, 3].into()]).answer(frame, frame.len())
}

#[test]
fn an_echo_request_becomes_its_reply() {
    for len in [0, 1, 2, 17, 56, 1472] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let mut frame = echo_request(OUR_IP, 3, &payload);
        assert!(answer(&mut frame));
        assert_eq!(addresses(&frame), (ALICE.0, US.0));
        let ip = ip_of(&frame);
        assert_eq!((ip.source(), ip.destination(), ip.ttl()), (OUR_IP, ALICE_IP, 64));
        let icmp = icmp_of(&frame);
        let Icmpv4Type::EchoReply(echo) = icmp.icmp_type() else { panic!("{:?}", icmp.icmp_type()) };
        assert_eq!((echo.id, echo.seq, icmp.payload()), (7, 9, &payload[..]));
    }
}

#[test]
fn frames_for_others_are_left_alone() {
    let mut frames = vec![echo_request([10, 0, 1, 2], 64, b"x"), udp(OUR_IP, 64), arp_request([10, 0, 1, 2])];
    let mut elsewhere = echo_request(OUR_IP, 64, b"x");
    elsewhere[5] = 9;
    let mut wrong_sum = echo_request(OUR_IP, 64, b"x");
    wrong_sum[24] ^= 1;
    let mut fragment = echo_request(OUR_IP, 64, b"x");
    // Set More Fragments, and correct the checksum.
    fragment[20] |= 0x20;
    let sum = Ipv4HeaderSlice::from_slice(&fragment[14..]).unwrap().to_header().calc_header_checksum();
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    frames.extend([elsewhere, wrong_sum, fragment]);
    frames.extend((0..50).map(|len| echo_request(OUR_IP, 64, b"0123456789")[..len].to_vec()));
    for frame in &mut frames {
        let before = frame.clone();
        assert!(!answer(frame), "{before:?}");
        assert_eq!(*frame, before);
    }
}

#[test]
fn an_arp_request_becomes_its_reply() {
    for len in [60, 42] {
        let mut frame = arp_request([10, 0, 1, 3]);
        frame.truncate(len);
        assert!(answer(&mut frame));
        assert_eq!(frame, arp(ArpOperation::REPLY, (US, [10, 0, 1, 3]), (ALICE, ALICE_IP), ALICE)[..len]);
    }
}

/// A clock that only tests advance, and the sent frames.
#[derive(Default)]
struct World {
    now: Duration,
    sent: Vec<(usize, Vec<u8>)>,
}

impl Surroundings<Vec<u8>> for World {
    fn now(&self) -> Duration {
        self.now
    }

    fn alloc(&mut self, _: usize, len: usize) -> Option<Vec<u8>> {
        Some(vec![0xee; len])
    }

    fn send(&mut self, port: usize, frame: Vec<u8>) {
        self.sent.push((port, frame));
    }
}

fn interfaces() -> Vec<Interface> {
    let interface = |mac, network: &str| Interface { mac, network: network.parse().unwrap() };
    vec![interface(US, "10.0.1.1/24"), interface(US_B, "10.0.2.1/24")]
}

/// A router between 10.0.1.0/24 and 10.0.2.0/24, with 10.9.0.0/16 behind Bob.
struct Rig {
    router: Router<Vec<u8>>,
    world: World,
}

impl Rig {
    fn new() -> Rig {
        let router = Router::new(interfaces(), &["10.9.0.0/16=10.0.2.11".parse().unwrap()]).unwrap();
        Rig { router, world: World::default() }
    }

    fn handle(&mut self, port: usize, frame: Vec<u8>) -> Result<Vec<(usize, Vec<u8>)>, Dropped> {
        let len = frame.len();
        let outcome = self.router.handle(port, frame, len, &mut self.world);
        let sent = std::mem::take(&mut self.world.sent);
        outcome.map(|()| sent)
    }

    fn bob_answers(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.handle(1, arp(ArpOperation::REPLY, (BOB, BOB_IP), (US_B, OUR_IP_B), US_B)).unwrap()
    }
}

#[test]
fn a_packet_waits_for_the_neighbours_address() {
    for to in [BOB_IP, [10, 9, 8, 7]] {
        let mut rig = Rig::new();
        let asked = rig.handle(0, udp(to, 9)).unwrap();
        let request = arp(ArpOperation::REQUEST, (US_B, OUR_IP_B), (MacAddr::default(), BOB_IP), MacAddr::BROADCAST);
        assert_eq!(asked, [(1, request)], "for {to:?}");
        assert_eq!(rig.handle(0, udp(to, 8)).unwrap(), [], "the neighbour is not asked twice in a second");
        let released = rig.bob_answers();
        assert_eq!(released.iter().map(|(port, f)| (*port, ip_of(f).ttl())).collect::<Vec<_>>(), [(1, 8), (1, 7)]);
        let later = rig.handle(0, udp(to, 7)).unwrap();
        for (_, frame) in released.iter().chain(&later) {
            assert_eq!(addresses(frame), (BOB.0, US_B.0));
            let sliced = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("{sliced:?}") };
            assert_eq!((ip.header().source(), ip.header().destination()), (ALICE_IP, to));
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("{sliced:?}") };
            assert_eq!(udp.payload(), b"hello");
        }
    }
}

#[test]
fn a_neighbour_is_forgotten_and_asked_for_again() {
    let mut rig = Rig::new();
    rig.handle(0, udp(BOB_IP, 9)).unwrap();
    rig.bob_answers();
    rig.world.now = Duration::from_secs(299);
    assert_eq!(rig.handle(0, udp(BOB_IP, 9)).unwrap().len(), 1);
    rig.world.now = Duration::from_secs(301);
    let asked = rig.handle(0, udp(BOB_IP, 9)).unwrap();
    assert_eq!(asked[0].1[..6], [0xff; 6]);
    rig.world.now = Duration::from_secs(303);
    rig.handle(0, udp(BOB_IP, 5)).unwrap();
    let released = rig.bob_answers();
    assert_eq!(released.len(), 1, "what waited for too long is gone");
    assert_eq!(ip_of(&released[0].1).ttl(), 4);
}

#[test]
fn held_packets_are_few() {
    let mut rig = Rig::new();
    let held = |rig: &mut Rig, host| (0..10).filter(|_| rig.handle(0, udp([10, 0, 2, host], 9)).is_ok()).count();
    let counts: Vec<_> = (20..60).map(|host| held(&mut rig, host)).collect();
    assert_eq!(counts[..32], [4; 32]);
    assert_eq!(counts[32..], [0; 8]);
}

#[test]
fn unsolicited_answers_are_ignored() {
    let mut rig = Rig::new();
    assert_eq!(rig.bob_answers(), []);
    assert_eq!(rig.handle(0, udp(BOB_IP, 9)).unwrap()[0].1[..6], [0xff; 6], "it asks");
}

#[test]
fn the_router_answers_for_itself() {
    let mut rig = Rig::new();
    let reply = rig.handle(0, arp_request(OUR_IP)).unwrap();
    assert_eq!(reply, [(0, arp(ArpOperation::REPLY, (US, OUR_IP), (ALICE, ALICE_IP), ALICE))]);
    for ip in [OUR_IP, OUR_IP_B] {
        let reply = rig.handle(0, echo_request(ip, 1, b"ping")).unwrap();
        assert_eq!(reply[0].0, 0);
        assert!(matches!(icmp_of(&reply[0].1).icmp_type(), Icmpv4Type::EchoReply(_)));
    }
    assert_eq!(rig.handle(0, udp(OUR_IP, 64)), Err(Dropped::Unanswered));
}

#[test]
fn the_sender_is_told_that_its_ttl_ran_out() {
    let mut rig = Rig::new();
    let original = udp(BOB_IP, 1);
    let len = original.len();
    assert_eq!(rig.router.handle(0, original.clone(), len, &mut rig.world), Err(Dropped::TimeExceeded));
    let (port, frame) = rig.world.sent.pop().unwrap();
    assert_eq!((port, addresses(&frame)), (0, (ALICE.0, US.0)));
    assert_eq!((ip_of(&frame).source(), ip_of(&frame).destination()), (OUR_IP, ALICE_IP));
    let icmp = icmp_of(&frame);
    assert_eq!(icmp.icmp_type(), Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit));
    assert_eq!(icmp.payload(), &original[14..14 + 28]);
    // An error is never answered with an error.
    let mut error = frame.clone();
    nf::wire::ethernet::set_addresses(&mut error, US, ALICE);
    error[22] = 1;
    error[26..34].copy_from_slice(&[ALICE_IP, BOB_IP].concat());
    let sum = Ipv4HeaderSlice::from_slice(&error[14..]).unwrap().to_header().calc_header_checksum();
    error[24..26].copy_from_slice(&sum.to_be_bytes());
    let len = error.len();
    assert_eq!(rig.router.handle(0, error, len, &mut rig.world), Err(Dropped::TimeExceeded));
    assert!(rig.world.sent.is_empty());
}

#[test]
fn unroutable_packets_have_a_reason() {
    let mut rig = Rig::new();
    let mut for_other = udp(BOB_IP, 9);
    for_other[5] = 0x77;
    let mut not_ip = udp(BOB_IP, 9);
    not_ip[12..14].copy_from_slice(&[0x86, 0xdd]);
    let mut wrong_sum = udp(BOB_IP, 9);
    wrong_sum[24] ^= 1;
    let mut too_long = udp(BOB_IP, 9);
    too_long.pop();
    for (frame, why) in [
        (for_other, Dropped::NotForUs),
        (not_ip, Dropped::Malformed),
        (wrong_sum, Dropped::Malformed),
        (too_long, Dropped::Malformed),
        (vec![0; 13], Dropped::Malformed),
        (udp([192, 0, 2, 1], 9), Dropped::NoRoute),
        (udp([10, 0, 2, 255], 9), Dropped::NotRouted),
        (udp([224, 0, 0, 1], 9), Dropped::NotRouted),
        (udp([127, 0, 0, 1], 9), Dropped::NotRouted),
        (arp_request([10, 0, 1, 99]), Dropped::NotForUs),
    ] {
        assert_eq!(rig.handle(0, frame), Err(why));
    }
}

#[test]
fn a_route_must_lead_through_a_port() {
    let interfaces = vec![Interface { mac: US, network: "10.0.1.1/24".parse().unwrap() }];
    let error = Router::<Vec<u8>>::new(interfaces, &["10.9.0.0/16=10.0.2.11".parse().unwrap()]).err().unwrap();
    assert_eq!(error.to_string(), "the route to 10.9.0.0/16 leads to 10.0.2.11, which is in no port's network");
}

/// A frame in place, in one buffer or in two.
struct InPlace {
    head: Vec<u8>,
    more: usize,
}

impl Deref for InPlace {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.head
    }
}

impl DerefMut for InPlace {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }
}

impl Frame for InPlace {
    fn total_len(&self) -> usize {
        self.head.len() + self.more
    }

    fn set_len(&mut self, len: usize) -> Option<()> {
        // Added bytes have arbitrary contents.
        self.head.resize(len, 0xee);
        (self.more == 0).then_some(())
    }
}

fn shared() -> SharedRouter {
    SharedRouter::new(interfaces(), &["10.9.0.0/16=10.0.2.11".parse().unwrap()]).unwrap()
}

/// Returns the frame that results from one that `port` receives `seconds` after the start, and the port that sends it.
fn route(worker: &mut RouterWorker, port: usize, frame: Vec<u8>, seconds: u64) -> Result<(usize, Vec<u8>), Dropped> {
    let mut frame = InPlace { head: frame, more: 0 };
    let to = worker.handle(port, &mut frame, Duration::from_secs(seconds))?;
    Ok((to.expect("it is sent"), frame.head))
}

fn bob_tells(worker: &mut RouterWorker) {
    let reply = arp(ArpOperation::REPLY, (BOB, BOB_IP), (US_B, OUR_IP_B), US_B);
    let mut reply = InPlace { head: reply, more: 0 };
    assert_eq!(worker.handle(1, &mut reply, Duration::ZERO), Ok(None));
}

#[test]
fn workers_of_a_router_learn_from_each_other() {
    for to in [BOB_IP, [10, 9, 8, 7]] {
        let router = shared();
        let mut workers = [router.worker(), router.worker()];
        let asked = route(&mut workers[0], 0, udp(to, 9), 0).unwrap();
        let request = arp(ArpOperation::REQUEST, (US_B, OUR_IP_B), (MacAddr::default(), BOB_IP), MacAddr::BROADCAST);
        assert_eq!(asked, (1, request), "the packet became the request, for {to:?}");
        for worker in &mut workers {
            assert_eq!(route(worker, 0, udp(to, 9), 0), Err(Dropped::NoNeighbour), "it is not asked twice in a second");
        }
        bob_tells(&mut workers[1]);
        for worker in &mut workers {
            let (port, frame) = route(worker, 0, udp(to, 9), 0).unwrap();
            assert_eq!((port, addresses(&frame)), (1, (BOB.0, US_B.0)));
            let mut expected = udp(to, 8);
            nf::wire::ethernet::set_addresses(&mut expected, BOB, US_B);
            assert_eq!(frame, expected);
        }
    }
}

#[test]
fn a_worker_answers_in_place() {
    let router = shared();
    let mut worker = router.worker();
    let reply = route(&mut worker, 0, arp_request(OUR_IP), 0).unwrap();
    assert_eq!(reply, (0, arp(ArpOperation::REPLY, (US, OUR_IP), (ALICE, ALICE_IP), ALICE)));
    let (port, reply) = route(&mut worker, 0, echo_request(OUR_IP_B, 1, b"ping"), 0).unwrap();
    assert!(port == 0 && matches!(icmp_of(&reply).icmp_type(), Icmpv4Type::EchoReply(_)));
    assert_eq!(route(&mut worker, 0, udp(OUR_IP, 64), 0), Err(Dropped::Unanswered));
    // The same as the router that makes frames.
    for original in [udp(BOB_IP, 1), echo_request(BOB_IP, 1, &[7; 1000])] {
        let mut rig = Rig::new();
        let len = original.len();
        assert_eq!(rig.router.handle(0, original.clone(), len, &mut rig.world), Err(Dropped::TimeExceeded));
        assert_eq!([route(&mut worker, 0, original, 0).unwrap()], rig.world.sent[..]);
    }
}

#[test]
fn a_frame_in_several_buffers_does_not_become_another_one() {
    let router = shared();
    let mut worker = router.worker();
    let split = |ttl| {
        let mut frame = udp(BOB_IP, ttl);
        let more = frame.len() - 40;
        frame.truncate(40);
        InPlace { head: frame, more }
    };
    assert_eq!(worker.handle(0, &mut split(1), Duration::ZERO), Err(Dropped::TimeExceeded));
    assert_eq!(worker.handle(0, &mut split(9), Duration::ZERO), Err(Dropped::NoNeighbour));
    let (_, asked) = route(&mut worker, 0, udp(BOB_IP, 9), 0).unwrap();
    assert_eq!(asked[..6], [0xff; 6], "others still ask");
    bob_tells(&mut worker);
    assert_eq!(worker.handle(0, &mut split(9), Duration::ZERO), Ok(Some(1)));
}

proptest! {
    /// No received frame causes a panic, and all IPv4 packets sent are valid.
    #[test]
    fn no_frame_makes_a_function_panic(
        base in 0usize..4, changes in prop::collection::vec((0usize..80, any::<u8>()), 0..6), cut in 0usize..100
    ) {
        let mut frame =
            [echo_request(OUR_IP, 2, b"0123456789"), udp(BOB_IP, 1), udp(BOB_IP, 9), arp_request(OUR_IP)][base].clone();
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut);
        let mut rig = Rig::new();
        rig.handle(0, udp(BOB_IP, 9)).unwrap();
        rig.bob_answers();
        if let Ok(sent) = rig.handle(0, frame.clone()) {
            for (_, frame) in sent {
                if frame[12..14] == [0x08, 0x00] {
                    ip_of(&frame);
                }
            }
        }
        let router = shared();
        let mut worker = router.worker();
        route(&mut worker, 0, udp(BOB_IP, 9), 0).unwrap();
        bob_tells(&mut worker);
        let mut in_place = InPlace { head: frame.clone(), more: 0 };
        if let Ok(Some(_)) = worker.handle(0, &mut in_place, Duration::ZERO)
            && in_place[12..14] == [0x08, 0x00]
        {
            ip_of(&in_place);
        }
        answer(&mut frame);
    }
}
