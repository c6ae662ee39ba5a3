//! Ports that aggregate, against a device that sends back all frames: joined packets are split again.

use crate::echo::{Echo, rest};
use nf::crew::{Crew, CrewOptions, ParentRole, Sharing, Verdict, View};
use nf::memory::HEADROOM;
use nf::{Aggregation, Idle, Options, Packet, PortOptions, Ports, Splitter};
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::rules::{Chains, NextHop, Spec};
use paflow::{Aggregate, AggregationRules, Planner, Receiver, Template, encode};
use proptest::prelude::*;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vhost_user::Mode;

const DEADLINE: Duration = Duration::from_secs(120);
static GO: AtomicBool = AtomicBool::new(false);

const V4: [Ipv4Addr; 3] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)];

/// Returns a route to next hop `nfi`, whose address is one of our own: sent frames come back, and are for us.
fn route(nfi: u16, vxlan: bool, v6: bool, checksum: Checksum) -> Route {
    let addresses = if v6 {
        let ip = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        Addresses::V6 { source: ip(99), destination: ip(nfi) }
    } else {
        Addresses::V4 { source: V4[0], destination: V4[usize::from(nfi)] }
    };
    let (source_port, destination_port) = (50_000 + nfi, if vxlan { 4789 } else { 50_261 });
    let tunnel = Tunnel { addresses, source_port, destination_port, hop_limit: 64, checksum };
    let (source, destination) = ([2, 0, 0, 0, 0, 9].into(), [2, 0, 0, 0, 0, nfi as u8].into());
    let carrier = match vxlan {
        true => Carrier::Vxlan { tunnel, vni: 7, source, destination },
        false => Carrier::Udp(tunnel),
    };
    Route { source, destination, vlan: None, routed: false, carrier }
}

/// Returns a specification in which VLAN 100 goes to next hop 1 and VLAN 200 to next hop 2.
fn spec(vxlan: bool, v6: bool, checksum: Checksum) -> Spec {
    let next_hops =
        (1..3).map(|nfi| NextHop { nfi, route: route(nfi, vxlan, v6, checksum), port: None }).collect::<Vec<_>>();
    let own = |hop: &NextHop| match hop.route.carrier {
        Carrier::Udp(tunnel) | Carrier::Vxlan { tunnel, .. } => match tunnel.addresses {
            Addresses::V4 { destination, .. } => IpAddr::from(destination),
            Addresses::V6 { destination, .. } => IpAddr::from(destination),
        },
        Carrier::Ethernet => unreachable!("no route is like that"),
    };
    Spec {
        mtu: 1500,
        chains: Chains::Vlan,
        receiver: Receiver::default(),
        mac: [2, 0, 0, 0, 0, 9].into(),
        addresses: next_hops.iter().map(own).collect(),
        drop_unknown: false,
        relay: None,
        next_hops,
        flows: vec![(100, 1), (200, 2)],
    }
}

fn plain() -> Spec {
    spec(false, false, Checksum::Zero)
}

struct Rig {
    ports: Ports,
    echo: Echo,
    _directory: TempDir,
}

impl Rig {
    fn new(spec: &Spec, splitter: Splitter, change: impl FnOnce(&mut Options)) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::new(vec![PortOptions::new(directory.path().join("wan.sock"))]);
        options.timeout = Some(DEADLINE);
        let rules = Arc::new(AggregationRules::new(spec, std::iter::empty()));
        options.ports[0].aggregation = Some(Aggregation { rules, splitter });
        change(&mut options);
        let port = &options.ports[0];
        let echo = Echo::new(&port.socket, Mode::Server, options.workers * port.queue_pairs);
        let ports = Ports::open(options, &GO).unwrap();
        Rig { ports, echo, _directory: directory }
    }

    fn send(&mut self, burst: &[Vec<u8>], queue: u16, pushed: usize) {
        let port = &mut self.ports[0];
        let packet = |bytes: &Vec<u8>| {
            let mut packet = port.alloc(bytes.len() - pushed).unwrap();
            packet.prepend(pushed).unwrap();
            packet.copy_from_slice(bytes);
            packet.set_queue(queue);
            packet
        };
        let mut packets = burst.iter().map(packet).collect();
        port.transmit_all(&mut packets);
        assert!(packets.is_empty());
    }

    fn receive(&mut self, count: usize) -> Vec<Packet> {
        let start = Instant::now();
        let mut burst = Vec::new();
        while burst.len() < count {
            self.ports[0].receive(&mut burst);
            assert!(start.elapsed() < DEADLINE, "{} of {count} packets came", burst.len());
            rest();
        }
        burst
    }

    /// Makes the device send `frame`, and waits until the port has received it. Returns the packets, and the counted drops.
    fn inject(&mut self, frame: &[u8]) -> (Vec<Packet>, Vec<(&'static str, u64)>) {
        let before = self.ports[0].counters();
        assert!(self.echo.inject(frame));
        let start = Instant::now();
        let mut burst = Vec::new();
        loop {
            self.ports[0].receive(&mut burst);
            let now = self.ports[0].counters();
            if now.received_frames > before.received_frames {
                let dropped = now.dropped.named().filter(|now| !before.dropped.named().any(|then| then == *now));
                return (burst, dropped.collect());
            }
            assert!(start.elapsed() < DEADLINE, "the frame did not come");
            rest();
        }
    }
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.chunks().flatten().copied().collect()
}

fn packet(vid: u16, len: usize, seed: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at * 31 + seed * 7) as u8).collect();
    bytes[12..14].copy_from_slice(&[0x81, 0x00]);
    bytes[14..16].copy_from_slice(&vid.to_be_bytes());
    bytes[16..18].copy_from_slice(&[0x88, 0xb6]);
    bytes
}

fn aggregate(packets: &[Vec<u8>], nfi: u16) -> Vec<u8> {
    let template = Template::new(&route(nfi, false, false, Checksum::Computed), 9000).unwrap();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let lengths: Vec<u16> = packets.iter().map(|packet| packet.len() as u16).collect();
    let mut planner = Planner::new();
    let next_hops = vec![paflow::Nfi::new(nfi); packets.len()];
    let plan = planner.plan(&lengths, &next_hops, |_| template.room());
    let mut out = vec![0; 9018];
    let len = encode::write(&plan, &plan.groups()[0], &template, &slices, &mut out).unwrap();
    out.truncate(len);
    out
}

fn sorted_by_vid(packets: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = packets.collect();
    packets.sort_by_key(|bytes| u16::from_be_bytes([bytes[14], bytes[15]]));
    packets
}

/// Checks that all sent packets come back one by one, unchanged, and in order within their chain, and that no frame
/// exceeds the MTU.
fn round_trips(spec: &Spec, splitter: Splitter, change: impl FnOnce(&mut Options)) {
    let rig = RefCell::new(Rig::new(spec, splitter, change));
    let packets =
        prop::collection::vec((prop::sample::select(vec![100, 100, 200, 300]), 18..1500usize, 0..8u8), 1..120);
    let mut joined = false;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let seen = RefCell::new(&mut joined);
    let outcome =
        runner.run(&(packets, 0..2u16, prop::sample::select(vec![0, 8, HEADROOM])), |(burst, queue, pushed)| {
            let rig = &mut *rig.borrow_mut();
            let burst: Vec<Vec<u8>> = burst
                .iter()
                .enumerate()
                .map(|(seed, &(vid, len, short))| {
                    packet(vid, if short > 0 { 18 + len % 100 } else { len }.max(pushed + 1), seed)
                })
                .collect();
            let before = rig.ports[0].counters();
            rig.send(&burst, queue, pushed);
            let mut back = Vec::new();
            let start = Instant::now();
            while back.len() < burst.len() {
                for mut packet in rig.receive(1) {
                    back.extend(packet.embedded().map(|embedded| embedded.to_vec()));
                }
                assert!(start.elapsed() < DEADLINE, "{} of {} packets came", back.len(), burst.len());
            }
            let chain = |bytes: &Vec<u8>| bytes.clone();
            prop_assert_eq!(sorted_by_vid(back.iter().map(chain)), sorted_by_vid(burst.iter().map(chain)));
            rig.ports[0].reclaim();
            let now = rig.ports[0].counters();
            prop_assert_eq!(now.transmitted - before.transmitted, burst.len() as u64);
            prop_assert_eq!(now.received, now.transmitted);
            prop_assert_eq!(now.received_frames, now.transmitted_frames);
            prop_assert_eq!((now.full, now.dropped.named().count()), (0, 0));
            **seen.borrow_mut() |= now.transmitted_frames < now.transmitted;
            prop_assert!(rig.echo.longest() <= 1514);
            Ok(())
        });
    outcome.unwrap();
    assert!(joined, "nothing was joined");
}

#[test]
fn joined_packets_are_split_again() {
    round_trips(&plain(), Splitter::Nf, |_| {});
}

#[test]
fn joined_packets_are_split_over_every_carrier() {
    round_trips(&spec(true, true, Checksum::Computed), Splitter::Nf, |_| {});
    round_trips(&spec(false, true, Checksum::Computed), Splitter::Nf, |o| o.ports[0].packed = true);
    round_trips(&spec(true, false, Checksum::Zero), Splitter::Nf, |o| o.ports[0].queue_pairs = 2);
}

#[test]
fn a_network_function_finds_the_packets_of_an_aggregate() {
    round_trips(&plain(), Splitter::Native, |_| {});
    round_trips(&spec(true, true, Checksum::Computed), Splitter::Native, |_| {});
}

/// Changes that a native network function makes in place reach the next hop, in the same buffer, with correct headers.
#[test]
fn an_aggregate_is_forwarded_as_a_whole() {
    for (vxlan, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut rig = Rig::new(&spec(vxlan, v6, Checksum::Computed), Splitter::Native, |_| {});
        let burst: Vec<Vec<u8>> = (0..10).map(|seed| packet(200, 60 + seed, seed)).collect();
        let (mut packets, dropped) = rig.inject(&aggregate(&burst, 1));
        assert!(packets.len() == 1 && dropped.is_empty() || v6, "{dropped:?}");
        if v6 {
            // Here, aggregates over IPv4 are for another address.
            assert_eq!(packets[0].embedded().count(), 1);
            rig.send(&burst, 0, 0);
            packets = rig.receive(1);
        }
        for (index, embedded) in packets[0].embedded().enumerate() {
            assert_eq!(embedded, burst[index]);
            embedded[20..30].fill(index as u8);
        }
        let (place, free) = (packets[0].embedded().next().unwrap().as_ptr(), rig.ports[0].free_buffers());
        rig.ports[0].transmit_all(&mut packets);
        let back = rig.receive(1).remove(0);
        assert!(rig.ports[0].free_buffers() <= free, "no buffer was needed {place:?}");
        let frame = bytes(&back);
        let found = Receiver::default().find(&frame[..]).unwrap().unwrap();
        assert_eq!(found.vni, vxlan.then_some(7));
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9]);
        let inside = Aggregate::parse(&frame[found.range.start..found.range.end], found.tail).unwrap();
        for (index, (embedded, before)) in inside.packets().zip(&burst).enumerate() {
            assert_eq!((&embedded[..20], &embedded[30..]), (&before[..20], &before[30..]));
            assert_eq!(embedded[20..30], [index as u8; 10]);
        }
        assert_eq!(inside.number(), 10);
        etherparse::PacketHeaders::from_ethernet_slice(&frame).unwrap();
        let counters = rig.ports[0].counters();
        assert_eq!(counters.transmitted, if v6 { 20 } else { 10 });
        assert_eq!(counters.transmitted_frames, if v6 { 2 } else { 1 });
    }
}

/// An aggregate whose packets have different next hops is split, and its packets are joined with others.
#[test]
fn packets_of_an_aggregate_part() {
    let mut rig = Rig::new(&plain(), Splitter::Native, |_| {});
    let burst: Vec<Vec<u8>> = (0..30).map(|seed| packet([100, 200, 300][seed % 3], 64, seed)).collect();
    let (mut packets, _) = rig.inject(&aggregate(&burst[..20], 1));
    packets.extend(rig.inject(&aggregate(&burst[20..], 2)).0);
    assert_eq!(packets.len(), 2);
    rig.ports[0].transmit_all(&mut packets);
    let mut back = Vec::new();
    for mut packet in rig.receive(12) {
        back.extend(packet.embedded().map(|embedded| embedded.to_vec()));
    }
    assert_eq!(sorted_by_vid(back.into_iter()), sorted_by_vid(burst.into_iter()));
    let counters = rig.ports[0].counters();
    assert_eq!((counters.transmitted, counters.transmitted_frames), (30, 12));
}

/// An aggregate that exceeds the MTU to the next hop is split, and its packets are joined into aggregates that fit.
#[test]
fn an_aggregate_that_is_too_long_for_the_next_hop_goes_as_several() {
    let mut rig = Rig::new(&plain(), Splitter::Native, |o| o.buffer_size = 9018);
    let burst: Vec<Vec<u8>> = (0..100).map(|seed| packet(100, 64, seed)).collect();
    let (mut packets, _) = rig.inject(&aggregate(&burst, 1));
    assert_eq!((packets.len(), packets[0].embedded().count()), (1, 100));
    rig.ports[0].transmit_all(&mut packets);
    let mut back = Vec::new();
    for mut packet in rig.receive(5) {
        back.extend(packet.embedded().map(|embedded| embedded.to_vec()));
    }
    assert_eq!(back, burst);
    assert!(rig.echo.longest() <= 1514);
}

/// An aggregate longer than a buffer arrives in several buffers; its packets are found across their boundaries.
#[test]
fn an_aggregate_over_many_buffers_is_split() {
    let small = Spec { mtu: 256, ..plain() };
    for splitter in [Splitter::Nf, Splitter::Native] {
        let mut rig = Rig::new(&small, splitter, |o| o.buffer_size = 270);
        let burst: Vec<Vec<u8>> = (0..40).map(|seed| packet(100, 60 + seed, seed)).collect();
        let (packets, dropped) = rig.inject(&aggregate(&burst, 1));
        assert_eq!((packets.iter().map(bytes).collect::<Vec<_>>(), dropped), (burst, Vec::new()));
    }
}

#[test]
fn wrong_aggregates_are_dropped_whole_and_counted() {
    let burst: Vec<Vec<u8>> = (0..5).map(|seed| packet(100, 61, seed)).collect();
    let right = aggregate(&burst, 1);
    // Behind Ethernet, IPv4 and UDP.
    const AT: usize = 42;
    type Damage = fn(&mut Vec<u8>);
    let cases: [(&str, Damage); 10] = [
        ("unknown-version", |frame| frame[AT] = 2),
        ("unknown-type", |frame| frame[AT + 1] = 9),
        ("empty", |frame| frame[AT + 3] = 0),
        ("too-many", |frame| frame[AT + 2] = 9),
        ("truncated", |frame| frame[AT + 3] = 6),
        ("length-mismatch", |frame| frame[AT + 3] = 4),
        ("embedded-runt", |frame| frame[AT + 5] = 13),
        ("bad-padding", |frame| frame[AT + 6 + 61] = 1),
        ("bad-ip-checksum", |frame| frame[24] ^= 1),
        ("fragmented", |frame| {
            frame[20] = 0x20;
            // From Don't Fragment to More Fragments: the sum decreases by 0x2000.
            let sum = u16::from_be_bytes([frame[24], frame[25]]) as u32 + 0x2000;
            frame[24..26].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
        }),
    ];
    for splitter in [Splitter::Nf, Splitter::Native] {
        let mut rig = Rig::new(&plain(), splitter, |_| {});
        for (reason, damage) in &cases {
            let mut frame = right.clone();
            // No UDP checksum.
            frame[40..42].fill(0);
            damage(&mut frame);
            let (packets, dropped) = rig.inject(&frame);
            assert_eq!((packets.len(), dropped), (0, vec![(*reason, 1)]));
        }
        let mut frame = right.clone();
        *frame.last_mut().unwrap() ^= 1;
        assert_eq!(rig.inject(&frame).1, [("bad-udp-checksum", 1)]);
        // Aggregates for other addresses are delivered as they are, valid or not.
        let mut others = aggregate(&burst, 2);
        others[33] = 77;
        let (packets, dropped) = rig.inject(&others);
        assert_eq!((packets.iter().map(bytes).collect::<Vec<_>>(), dropped), (vec![others], Vec::new()));
        drop(packets);
        assert_eq!(rig.inject(&right).0.len(), if splitter == Splitter::Nf { 5 } else { 1 });
        // All buffers are accounted for.
        rig.ports[0].reclaim();
        assert_eq!(rig.ports[0].free_buffers(), 256 + 256 + 64 + 256 + 32);
    }
}

/// Bursts of packets alone, which stay where they were received, and of packets and aggregates.
#[test]
fn packets_and_aggregates_keep_their_order() {
    let mut rig = Rig::new(&plain(), Splitter::Nf, |_| {});
    let (mut sent, mut frames) = (Vec::new(), Vec::new());
    for seed in 0..150 {
        let packets: Vec<Vec<u8>> = (0..3).map(|part| packet(100, 61 + part, 3 * seed + part)).collect();
        // Runs of either kind, and both in turn.
        let joined = seed > 100 && (seed % 20 < 3 || seed % 7 == 0);
        frames.extend(if joined { vec![aggregate(&packets, 1)] } else { packets.clone() }.into_iter().take(1));
        sent.extend(packets.into_iter().take(if joined { 3 } else { 1 }));
    }
    frames.iter().for_each(|frame| assert!(rig.echo.inject(frame)));
    let came: Vec<_> = rig.receive(sent.len()).iter().map(bytes).collect();
    assert!(came == sent);
    let counters = rig.ports[0].counters();
    assert_eq!((counters.received, counters.received_frames), (sent.len() as u64, frames.len() as u64));
}

#[test]
fn queue_pairs_with_many_aggregates_take_turns() {
    let mut rig = Rig::new(&plain(), Splitter::Nf, |o| o.ports[0].queue_pairs = 2);
    let burst: Vec<Vec<u8>> = (0..22).map(|seed| packet(100, 60, seed)).collect();
    let aggregate = aggregate(&burst, 1);
    const EACH: usize = 20;
    (0..2 * EACH).for_each(|turn| assert!(rig.echo.inject_at(turn % 2, &aggregate)));
    let (start, mut aggregates) = (Instant::now(), [0; 2]);
    while aggregates != [EACH; 2] {
        let mut packets = Vec::new();
        rig.ports[0].receive(&mut packets);
        packets.chunks(22).for_each(|of_one| aggregates[usize::from(of_one[0].queue())] += 1);
        assert!(aggregates[0].abs_diff(aggregates[1]) <= 4, "{aggregates:?}");
        assert!(start.elapsed() < DEADLINE, "{aggregates:?}");
    }
}

#[test]
fn packets_without_a_buffer_are_counted() {
    let mut rig = Rig::new(&plain(), Splitter::Nf, |o| o.spare_buffers = 0);
    let burst: Vec<Vec<u8>> = (0..100).map(|seed| packet(100, 60, seed)).collect();
    let mut kept = Vec::new();
    let lost = loop {
        let (packets, dropped) = rig.inject(&aggregate(&burst, 1));
        kept.extend(packets);
        if let [(reason, lost)] = dropped[..] {
            assert_eq!(reason, "no-buffers");
            break lost;
        }
        assert!(kept.len() < 3000);
    };
    assert_eq!((kept.len() as u64 + lost) % 100, 0);
    drop(kept);
    assert_eq!(rig.inject(&aggregate(&burst, 1)).0.len(), 100);
}

#[test]
fn unknown_chains_can_be_dropped() {
    let strict = Spec { drop_unknown: true, ..plain() };
    let mut rig = Rig::new(&strict, Splitter::Nf, |_| {});
    let burst: Vec<Vec<u8>> = (0..30).map(|seed| packet([100, 300][seed % 2], 60, seed)).collect();
    rig.send(&burst, 0, 0);
    let back = rig.receive(15);
    assert!(back.iter().map(bytes).eq(burst.into_iter().step_by(2)));
    assert_eq!(rig.ports[0].counters().dropped.named().collect::<Vec<_>>(), [("unknown-chain", 15)]);
}

/// A next hop behind another port is ignored; ports are identified by their sockets' names.
#[test]
fn next_hops_can_be_behind_one_port() {
    let mut here = plain();
    here.next_hops[0].port = Some("lan".into());
    here.next_hops[1].port = Some("wan".into());
    let mut rig = Rig::new(&here, Splitter::Nf, |_| {});
    let burst: Vec<Vec<u8>> = (0..40).map(|seed| packet([100, 200][seed % 2], 60, seed)).collect();
    rig.send(&burst, 0, 0);
    rig.receive(40);
    assert_eq!(rig.ports[0].counters().transmitted_frames, 21);
}

/// A crew splits what it receives, in more packets than a batch has, and joins what it sends: packets go round three times.
#[test]
fn a_crew_splits_and_joins() {
    for options in crews() {
        let kind = (options.sharing, options.parent);
        let mut rig = Rig::new(&plain(), Splitter::Nf, |ports| *ports = options.adapt(ports.clone()));
        let burst: Vec<Vec<u8>> = (0..100).map(|seed| packet([100, 200][seed % 2], 60, seed)).collect();
        for (nfi, vid) in [(1, 100), (2, 200)] {
            let of_vid = |packet: &&Vec<u8>| packet[14..16] == u16::to_be_bytes(vid);
            let joined: Vec<_> = burst.iter().filter(of_vid).cloned().collect();
            assert!(rig.echo.inject(&aggregate(&joined[..20], nfi)));
            assert!(rig.echo.inject(&aggregate(&joined[20..], nfi)));
        }
        let (stop, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
        // How often each packet was there.
        let times: Vec<AtomicUsize> = burst.iter().map(|_| AtomicUsize::new(0)).collect();
        let work = || {
            |view: &mut View| {
                let index = burst.iter().position(|packet| **view == packet[..]).expect("a packet has changed");
                if times[index].fetch_add(1, Ordering::Relaxed) < 2 {
                    return Verdict::Back;
                }
                stop.store(ended.fetch_add(1, Ordering::Relaxed) + 1 == burst.len(), Ordering::Relaxed);
                Verdict::Drop
            }
        };
        Crew::new(options).unwrap().run(&mut rig.ports, Idle::Sleep, &stop, work).unwrap();
        assert!(times.iter().all(|times| times.load(Ordering::Relaxed) == 3), "{kind:?}");
        let counters = rig.ports.counters()[0];
        assert_eq!((counters.received, counters.transmitted, counters.full), (300, 200, 0), "{kind:?}");
        assert!(counters.transmitted_frames <= 40, "{kind:?}: {counters:?}");
        assert_eq!(counters.dropped.named().collect::<Vec<_>>(), [("verdict", 100)], "{kind:?}");
    }
}

/// The kinds of crews, with two workers.
fn crews() -> [CrewOptions; 4] {
    let separate = |sharing| CrewOptions { patience: DEADLINE, ..CrewOptions::new(2, sharing) };
    let works = CrewOptions { parent: ParentRole::Works, ..separate(Sharing::StaticRole) };
    [separate(Sharing::StaticRole), works, separate(Sharing::Locked), separate(Sharing::Rss)]
}

/// The packets of an aggregate that no batch had yet are processed as well if the crew is stopped, and counted if it fails.
#[test]
fn a_crew_that_ends_loses_no_packet_of_an_aggregate() {
    for (options, panics) in crews().into_iter().flat_map(|options| [(options.clone(), false), (options, true)]) {
        let mut rig = Rig::new(&plain(), Splitter::Nf, |ports| *ports = options.adapt(ports.clone()));
        let burst: Vec<Vec<u8>> = (0..80).map(|seed| packet(100, 18, seed)).collect();
        for _ in 0..3 {
            assert!(rig.echo.inject(&aggregate(&burst, 1)));
        }
        let stop = AtomicBool::new(false);
        let work = || {
            |_: &mut View| {
                assert!(!panics, "as the test wants it");
                stop.store(true, Ordering::Relaxed);
                Verdict::Drop
            }
        };
        let kind = (options.sharing, options.parent, panics);
        let outcome = Crew::new(options).unwrap().run(&mut rig.ports, Idle::Sleep, &stop, work);
        assert_eq!(outcome.is_err(), panics, "{kind:?}");
        let counters = rig.ports.counters()[0];
        let dropped: Vec<_> = counters.dropped.named().collect();
        let reason = if panics { "worker-panicked" } else { "verdict" };
        assert!(counters.received >= 80 && counters.transmitted == 0, "{kind:?}: {counters:?}");
        assert_eq!(dropped, [(reason, counters.received)], "{kind:?}");
    }
}

#[test]
fn a_crew_gets_whole_aggregates_if_it_wants() {
    let mut rig = Rig::new(&plain(), Splitter::Native, |_| {});
    let burst: Vec<Vec<u8>> = (0..10).map(|seed| packet(200, 60 + seed, seed)).collect();
    assert!(rig.echo.inject(&aggregate(&burst, 1)));
    let stop = AtomicBool::new(false);
    let work = || {
        |view: &mut View| {
            assert!(view.embedded().zip(&burst).all(|(embedded, packet)| *embedded == packet[..]));
            stop.store(true, Ordering::Relaxed);
            if view.embedded().count() == 10 { Verdict::Back } else { Verdict::Drop }
        }
    };
    let options = CrewOptions::new(1, Sharing::Locked);
    Crew::new(options).unwrap().run(&mut rig.ports, Idle::Sleep, &stop, work).unwrap();
    let packets: Vec<_> = rig.receive(1).remove(0).embedded().map(|embedded| embedded.to_vec()).collect();
    assert_eq!(packets, burst);
}

#[test]
fn buffers_have_to_be_long_enough() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(vec![PortOptions::new(directory.path().join("wan.sock"))]);
    let rules = Arc::new(AggregationRules::new(&Spec { mtu: 9000, ..plain() }, std::iter::empty()));
    options.ports[0].aggregation = Some(Aggregation { rules, splitter: Splitter::Nf });
    let error = Ports::open(options, &GO).err().unwrap().to_string();
    assert!(error.contains("wan.sock: aggregates of 9014 bytes don't fit into buffers for frames of 2048"), "{error}");
}
