//! Tests that packets arrive as they were sent, however they are joined and split in between.

mod round;
mod routed;

use super::{Join, Member, PortTraffic, Relay, Split, rules};
use crate::answers::Answers;
use crate::drops::Drops;
use crate::live::Live;
use crate::port::frames::to_vec;
use crate::port::{Sent, TxQueue};
use crate::spec::{AggregationSpec, Chains, NextHopSpec};
use crate::stage::egress::{Egress, Outgoing};
use crate::stage::ingress::{IngressStage, IngressStages};
use crate::stage::stopwatch::Stopwatch;
use crate::stats::{AggregationFlow, AggregationSide};
use handover::EventNotifier;
use packet::{BurstStorage, Frames, MAX_BURST, Segment};
use paflow::AggregationRules;
use paflow::Receiver;
use paflow::header::entry_size;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const MTU: u16 = 1500;
/// The next hop of VLANs 10 to 19 is 1, of 20 to 29 is 2, of 30 is 3, which is behind another port.
const OTHER_PORT: u16 = 3;

type Wire = Arc<Mutex<Vec<Vec<u8>>>>;

/// Takes frames up to a length and number in each burst.
struct Link {
    wire: Wire,
    longest: u32,
    most: usize,
}

impl TxQueue for Link {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        for frame in frames.as_slice() {
            if frame.len() > self.longest {
                sent.too_long += 1;
                continue;
            }
            if sent.frames as usize == self.most {
                break;
            }
            let mut bytes = vec![0; frame.len() as usize];
            assert_eq!(frames.copy_to(frame, &mut bytes), bytes.len());
            sent.frames += 1;
            sent.bytes += bytes.len() as u64;
            self.wire.lock().unwrap().push(bytes);
        }
        sent
    }
}

fn route(nfi: u16, vxlan: bool, checksum: Checksum) -> Route {
    let addresses = Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 10 + nfi as u8].into() };
    let port = if vxlan { 4789 } else { 50_261 };
    let tunnel = Tunnel { addresses, source_port: 50_000 + nfi, destination_port: port, hop_limit: 64, checksum };
    let (source, destination) = ([2, 0, 0, 0, 0, 1].into(), [2, 0, 0, 0, 1, nfi as u8].into());
    let carrier = if vxlan { Carrier::Vxlan { tunnel, vni: 77, source, destination } } else { Carrier::Udp(tunnel) };
    Route { source, destination, vlan: None, routed: false, carrier }
}

fn spec(vxlan: bool, checksum: Checksum) -> AggregationSpec {
    let hop = |nfi: u16| NextHopSpec {
        nfi,
        route: route(nfi, vxlan, checksum),
        port: (nfi == OTHER_PORT).then(|| "elsewhere".into()),
    };
    AggregationSpec {
        mtu: MTU,
        chains: Chains::Vlan,
        receiver: Receiver { ethernet: false, ..Receiver::default() },
        mac: [2, 0, 0, 0, 0, 1].into(),
        addresses: (0..4).map(|nfi| [192, 0, 2, 10 + nfi].into()).collect(),
        drop_unknown: false,
        relay: None,
        next_hops: (1..=3).map(hop).collect(),
        flows: (10..31).map(|vid| (vid, vid as u16 / 10)).collect(),
    }
}

struct Rig {
    wire: Wire,
    join: Egress,
    split: IngressStages,
    watch: Stopwatch,
    rules: Arc<Live<AggregationRules>>,
    member: Member,
    /// Drops on sending and on receiving.
    drops: [Arc<Drops>; 2],
}

impl Rig {
    fn new(spec: &AggregationSpec, longest: u32, most: usize) -> Rig {
        let rules = Arc::new(Live::new(rules(Some(spec), &[])));
        let notifier = Arc::new(EventNotifier::new().unwrap());
        let relay = Arc::new(Relay::new(1, notifier.clone()));
        let neighbours = Arc::new(Answers::new(1, crate::neighbour::RING, notifier.clone()));
        let refusals = Arc::new(Answers::new(1, super::REFUSALS, notifier));
        refusals.prepare(0);
        relay.prepare(0);
        neighbours.prepare(0);
        let member = Member {
            port: "wan".into(),
            rules: rules.clone(),
            traffic: Arc::new(PortTraffic::new(1)),
            relay,
            neighbours,
            refusals,
        };
        let (wire, drops) = (Wire::default(), <[Arc<Drops>; 2]>::default());
        let link = Box::new(Link { wire: wire.clone(), longest, most });
        let join = Join::new(member.clone(), 0, drops[0].clone());
        let split = Split::new(member.clone(), 0, drops[1].clone());
        Rig {
            wire,
            join: Egress::of(link, [Box::new(join) as Box<_>]),
            split: [Box::new(split) as Box<dyn IngressStage>].into_iter().collect(),
            watch: Stopwatch::default(),
            rules,
            member,
            drops,
        }
    }

    /// Sends a burst of frames, each cut into pieces of `cut` bytes.
    fn send(&self, frames: &[Vec<u8>], cut: usize) -> Sent {
        self.burst(frames, cut, |frames| self.join.transmit(Outgoing::Frames(frames), false, &self.watch))
    }

    /// The same, with more to come in the round. Overwrites the frames' memory afterwards.
    fn send_more(&self, frames: &[Vec<u8>], cut: usize) -> Sent {
        let mut frames = frames.to_vec();
        let sent = self.burst(&frames, cut, |frames| self.join.transmit(Outgoing::Frames(frames), true, &self.watch));
        frames.iter_mut().for_each(|frame| frame.fill(0xee));
        sent
    }

    /// Ends the round.
    fn flush(&self) -> Sent {
        self.join.flush(&self.watch)
    }

    fn burst(&self, frames: &[Vec<u8>], cut: usize, send: impl FnOnce(Frames<'_>) -> Sent) -> Sent {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for frame in frames {
            assert!(burst.push_segments(frame.chunks(cut).map(Segment::from)));
        }
        send(burst.frames())
    }

    /// Receives these frames, cut likewise. Returns the packets in them, and the sizes of the bursts that they came in.
    fn receive(&self, frames: &[Vec<u8>], cut: usize) -> (Vec<Vec<u8>>, Vec<usize>) {
        let mut storage = Box::<BurstStorage>::default();
        let (mut packets, mut bursts) = (Vec::new(), Vec::new());
        for some in frames.chunks(MAX_BURST) {
            let mut burst = storage.start();
            let cut = cut.max(fewest(some));
            for frame in some {
                assert!(burst.push_segments(frame.chunks(cut).map(Segment::from)));
            }
            self.split.process(&mut burst, &self.watch, &mut |burst| {
                let frames = burst.frames();
                bursts.push(frames.len());
                packets.extend(frames.as_slice().iter().map(|frame| to_vec(&frames, frame)));
            });
        }
        (packets, bursts)
    }

    fn taken(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.wire.lock().unwrap())
    }

    fn counted(&self) -> [AggregationSide; 2] {
        let mut sides = <[AggregationSide; 2]>::default();
        self.member.traffic.of(0).sent.add_to(&mut sides[0]);
        self.member.traffic.of(0).received.add_to(&mut sides[1]);
        sides
    }
}

/// A frame of `len` bytes in this VLAN, or in none.
fn packet(len: usize, vid: Option<u16>, fill: u8) -> Vec<u8> {
    let mut bytes = vec![fill; len];
    let ethertype: &[u8] = if vid.is_some() { &[0x81, 0x00] } else { &[0x88, 0xb5] };
    bytes[12..14].copy_from_slice(ethertype);
    if let Some(vid) = vid.filter(|_| len >= 16) {
        bytes[14..16].copy_from_slice(&vid.to_be_bytes());
    }
    bytes
}

fn bursts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let len = prop_oneof![6 => 60usize..200, 2 => 200usize..1500, 1 => 14usize..60, 1 => 1400usize..3000];
    let vid = prop_oneof![8 => (10u16..31).prop_map(Some), 1 => Just(Some(900)), 1 => Just(None)];
    let packet = (len, vid, any::<u8>()).prop_map(|(len, vid, fill)| packet(len, vid, fill));
    prop::collection::vec(packet, 1..=MAX_BURST)
}

/// Returns the length of pieces for which a burst has room.
fn fewest(frames: &[Vec<u8>]) -> usize {
    frames.iter().map(Vec::len).sum::<usize>() / 1000 + 1
}

fn cuts() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(usize::MAX), 1 => 1usize..5, 2 => 5usize..900].prop_map(|cut| cut.max(1))
}

/// Returns the next hop of a frame of [`bursts`].
fn next_hop(packet: &[u8]) -> Option<u16> {
    let vid = u16::from_be_bytes([*packet.get(14)?, *packet.get(15)?]) & 0xfff;
    (packet[12..14] == [0x81, 0x00] && (10..31).contains(&vid)).then_some(vid / 10)
}

fn by_next_hop(packets: &[Vec<u8>]) -> BTreeMap<Option<u16>, Vec<&Vec<u8>>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    packets.iter().for_each(|packet| groups.entry(next_hop(packet)).or_default().push(packet));
    groups
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_arrives_once_whole_and_in_order(
        packets in bursts(),
        vxlan: bool,
        checksum in prop_oneof![Just(Checksum::Zero), Just(Checksum::Computed)],
        (cut, cut_again) in (cuts(), cuts()),
    ) {
        let cut = cut.max(fewest(&packets));
        let rig = Rig::new(&spec(vxlan, checksum), u32::MAX, MAX_BURST);
        let sent = rig.send(&packets, cut);
        let bytes = packets.iter().map(|packet| packet.len() as u64).sum();
        prop_assert_eq!(sent, Sent { frames: packets.len() as u32, bytes, ..Sent::default() });
        let wire = rig.taken();
        for frame in &wire {
            prop_assert!(frame.len() <= usize::from(MTU) + 14 || packets.contains(frame), "{} bytes", frame.len());
        }
        let (arrived, sizes) = rig.receive(&wire, cut_again);
        prop_assert_eq!(by_next_hop(&arrived), by_next_hop(&packets));
        prop_assert_eq!(arrived.len(), packets.len());
        prop_assert!(sizes.iter().all(|&size| size > 0));
        prop_assert!(rig.drops.iter().all(|drops| drops.named().is_empty()));
        // Packets to a next hop behind another port are not joined here.
        for packet in packets.iter().filter(|packet| next_hop(packet) == Some(OTHER_PORT)) {
            prop_assert!(wire.contains(packet));
        }
        for side in rig.counted() {
            prop_assert_eq!((side.packets, side.frames), (packets.len() as u64, wire.len() as u64));
            prop_assert_eq!(side.sizes.iter().sum::<u64>(), side.frames);
            prop_assert_eq!(side.held.iter().sum::<u64>(), side.frames);
            prop_assert_eq!(side.frames - side.held[0], side.aggregates);
        }
    }

    #[test]
    fn frames_that_a_link_refuses_are_accounted_for(packets in bursts(), longest in 500u32..1600, most in 0usize..20) {
        let rig = Rig::new(&spec(false, Checksum::Zero), longest, most);
        let sent = rig.send(&packets, usize::MAX);
        let (arrived, _) = rig.receive(&rig.taken(), usize::MAX);
        prop_assert_eq!(sent.frames as usize, arrived.len());
        prop_assert_eq!(sent.bytes, arrived.iter().map(|packet| packet.len() as u64).sum::<u64>());
        prop_assert!(sent.frames + sent.too_long <= packets.len() as u32);
        prop_assert_eq!(rig.counted()[0].packets, u64::from(sent.frames));
    }

    #[test]
    fn damage_stays_within_its_aggregate(
        packets in bursts(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
        rig.send(&packets, usize::MAX);
        let mut wire = rig.taken();
        let whole = wire.clone();
        for (frame, byte, value) in damage {
            let frame = frame.index(wire.len());
            let byte = byte.index(wire[frame].len());
            wire[frame][byte] ^= value;
        }
        let (arrived, _) = rig.receive(&wire, usize::MAX);
        let dropped: u64 = rig.drops[1].named().values().sum();
        let good: Vec<_> = wire.iter().zip(&whole).filter(|(now, before)| now == before).map(|(now, _)| now.clone()).collect();
        prop_assert!(dropped as usize <= wire.len() - good.len());
        // All undamaged packets arrived, in order.
        let (wanted, _) = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST).receive(&good, usize::MAX);
        let mut rest = arrived.iter();
        prop_assert!(wanted.iter().all(|packet| rest.any(|other| other == packet)));
    }
}

/// Returns a rig, and the one aggregate of 20 packets of 60 bytes that it sent.
fn aggregate() -> (Rig, Vec<u8>) {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets: Vec<_> = (0..20).map(|fill| packet(60, Some(10), fill)).collect();
    rig.send(&packets, usize::MAX);
    let wire = rig.taken();
    assert_eq!(wire.len(), 1);
    (rig, wire.into_iter().next().unwrap())
}

#[test]
fn errors_have_drop_reasons() {
    type Spoil<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(&str, Spoil<'_>); 10] = [
        ("unknown-version", &|frame| frame[42] = 2),
        ("unknown-type", &|frame| frame[43] = 9),
        ("empty", &|frame| frame[45] = 0),
        ("too-many", &|frame| frame[44] = 2),
        ("truncated", &|frame| frame[45] = 21),
        ("truncated", &|frame| frame.truncate(200)),
        ("embedded-runt", &|frame| frame[46..48].copy_from_slice(&[0, 13])),
        ("length-mismatch", &|frame| frame[45] = 19),
        ("bad-ip-checksum", &|frame| frame[24] ^= 1),
        ("bad-udp-checksum", &|frame| frame[40] = 1),
    ];
    for (reason, spoil) in cases {
        let (rig, good) = aggregate();
        let mut bad = good.clone();
        spoil(&mut bad);
        let other = packet(100, None, 7);
        let (arrived, _) = rig.receive(&[good, bad, other.clone()], usize::MAX);
        assert_eq!((arrived.len(), arrived.last()), (21, Some(&other)), "{reason}");
        assert_eq!(rig.drops[1].named(), [(reason.to_owned(), 1)].into());
    }
}

#[test]
fn aggregates_for_others_pass_as_they_are() {
    let (rig, good) = aggregate();
    let mut elsewhere = good.clone();
    // The address goes from .11 to .200, and the checksum with it (RFC 1624).
    elsewhere[33] = 200;
    let sum = u32::from(!u16::from_be_bytes([good[24], good[25]])) + 200 - 11;
    elsewhere[24..26].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    let mut broken = elsewhere.clone();
    broken[24] ^= 1;
    let (arrived, sizes) = rig.receive(&[elsewhere.clone(), broken.clone(), good], usize::MAX);
    assert_eq!((&arrived[0], &arrived[1], arrived.len()), (&elsewhere, &broken, 22));
    assert_eq!(sizes, [22]);
    assert!(rig.drops[1].named().is_empty());
}

#[test]
fn an_aggregate_may_hold_more_than_a_burst() {
    let (rig, _) = aggregate();
    let jumbo = AggregationSpec { mtu: 9000, ..spec(false, Checksum::Zero) };
    let template = paflow::Template::new(&jumbo.next_hops[0].route, 9000).unwrap();
    let packets: Vec<_> = (0..130).map(|fill| packet(60, Some(10), fill)).collect();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut planner = paflow::Planner::new();
    let plan = planner.plan(&[60; 130], &[paflow::Nfi::new(1); 130], |_| template.room());
    let mut frame = vec![0; 9014];
    let len = paflow::encode::write(&plan, &plan.groups()[0], &template, &slices, &mut frame).unwrap();
    frame.truncate(len);
    let (arrived, sizes) = rig.receive(&[packets[0].clone(), frame, packets[1].clone()], 2048);
    assert_eq!(sizes, [32, 32, 32, 32, 4]);
    assert_eq!(arrived[1..131], packets[..]);
}

#[test]
fn a_queue_of_aggregates_leaves_others_their_turn() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    assert_eq!(rig.split.turn(), Some(MAX_BURST));
    rig.send(&vec![packet(64, Some(10), 1); MAX_BURST], usize::MAX);
    let wire = rig.taken();
    assert_eq!(wire.len(), 2);
    // Two frames with 32 packets: the queue has its turn again at once, and takes four such bursts.
    rig.receive(&wire, usize::MAX);
    assert_eq!(rig.split.turn(), Some(8));
    rig.receive(&[&wire[..], &wire, &wire, &wire].concat(), usize::MAX);
    assert_eq!([0; 4].map(|_| rig.split.turn()), [None, None, None, Some(8)]);
    rig.receive(&[packet(64, Some(10), 1)], usize::MAX);
    assert_eq!(rig.split.turn(), Some(MAX_BURST));
}

#[test]
fn rules_change_between_two_bursts() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets = [packet(64, Some(10), 1), packet(64, Some(10), 2), packet(64, Some(40), 3)];
    rig.send(&packets, usize::MAX);
    assert_eq!(rig.taken().len(), 2);
    let mut strict = spec(false, Checksum::Zero);
    (strict.drop_unknown, strict.flows) = (true, vec![(40, 2)]);
    rig.rules.set(rules(Some(&strict), &[]));
    let sent = rig.send(&packets, usize::MAX);
    assert_eq!((sent.frames, sent.counted), (1, 2));
    assert_eq!(rig.taken(), packets[2..]);
    assert_eq!(rig.drops[0].named(), [("unknown-chain".to_owned(), 2)].into());
    let laid = [(40, 0), (10, 1)].map(|(sc, nfi)| AggregationFlow { sc, nfi });
    rig.rules.set(rules(Some(&strict), &laid));
    assert_eq!((rig.send(&packets, usize::MAX).frames, rig.taken().len()), (2, 1));
    rig.rules.set(AggregationRules::none());
    assert_eq!(rig.send(&packets, usize::MAX).frames, 3);
    assert_eq!(rig.taken(), packets);
    let hop = rig.member.traffic.of(0).hop(paflow::Nfi::new(1).unwrap());
    assert_eq!((hop.aggregates.get(), hop.packets.get()), (2, 4));
}

/// Returns an ARP request for `target`.
fn asks(target: [u8; 4]) -> Vec<u8> {
    let (asker, request) = ([2, 0, 0, 0, 0, 9], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    [&[0xff; 6][..], &asker, &request, &asker, &[192, 0, 2, 9], &[0; 6], &target].concat()
}

#[test]
fn requests_for_the_switch_are_answered_and_not_forwarded() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets = [packet(64, Some(10), 1), asks([192, 0, 2, 10]), asks([192, 0, 2, 99]), packet(64, None, 2)];
    for cut in [usize::MAX, 5] {
        let (arrived, sizes) = rig.receive(&packets, cut);
        assert_eq!(arrived, [&packets[0], &packets[2], &packets[3]].map(Clone::clone));
        assert_eq!(sizes, [3]);
        let answers: Vec<_> = rig.member.neighbours.drain().collect();
        assert_eq!((answers.len(), answers[0].0, answers[0].1.len()), (1, 0, 1));
        let answer = &answers[0].1[0];
        assert_eq!((answer.len(), &answer[20..32]), (60, &[0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, 10][..]));
    }
    assert!(rig.drops[1].named().is_empty());
    // Answers that wait are not sent: the ring fills up, and the rest is counted.
    let (arrived, _) = rig.receive(&vec![asks([192, 0, 2, 10]); 100], usize::MAX);
    assert!(arrived.is_empty());
    let waiting: usize = rig.member.neighbours.drain().map(|(_, answers)| answers.len()).sum();
    assert!(waiting > 20, "{waiting}");
    assert_eq!(rig.drops[1].named(), [("neighbour-flood".to_owned(), 100 - waiting as u64)].into());
    assert_eq!(rig.member.neighbours.count(), waiting as u64 + 2);
}

#[test]
fn answers_are_not_joined() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets = [packet(64, Some(10), 1), packet(64, Some(10), 2)];
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    packets.iter().for_each(|bytes| burst.push(Segment::from(&bytes[..])));
    assert_eq!(rig.join.transmit_bare(burst.frames(), &rig.watch).frames, 2);
    assert_eq!(rig.taken(), packets);
}

#[test]
fn service_chains_by_vni() {
    let by_vni = AggregationSpec { chains: Chains::Vni, flows: vec![(70_000, 1)], ..spec(false, Checksum::Zero) };
    let rig = Rig::new(&by_vni, u32::MAX, MAX_BURST);
    let vxlan = |vni: u32| {
        let mut bytes = packet(90, None, 0);
        bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 76, 0, 0, 0, 0, 64, 17]);
        bytes[36..38].copy_from_slice(&4789u16.to_be_bytes());
        bytes[42] = 8;
        bytes[46..50].copy_from_slice(&(vni << 8).to_be_bytes());
        bytes
    };
    let packets = [vxlan(70_000), vxlan(70_001), vxlan(70_000)];
    rig.send(&packets, 7);
    let wire = rig.taken();
    assert_eq!((wire.len(), &wire[1]), (2, &packets[1]));
    let (arrived, _) = rig.receive(&wire, usize::MAX);
    assert_eq!(arrived, [&packets[0], &packets[2], &packets[1]].map(Clone::clone));
}

#[test]
fn two_packets_are_joined_as_long_as_they_fit() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let room = rig.rules.get().hops[0].room("wan").bytes;
    for (len, longer) in (700..750).flat_map(|len| [(len, 0), (len, 3)]) {
        rig.send(&[len, len + longer].map(|len| packet(len.into(), Some(10), 1)), usize::MAX);
        let fit = entry_size(len) + entry_size(len + longer) <= room;
        assert_eq!(rig.taken().len(), if fit { 1 } else { 2 }, "{len} and {longer} more bytes");
    }
}

/// Longer than a length in an aggregate can say: their lengths, cut to 16 bits, would be those of short packets.
#[test]
fn packets_longer_than_any_aggregate_go_as_they_are() {
    for count in [1, 2] {
        let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
        let packets = vec![packet(65_536 + 18, Some(10), 7); count];
        assert_eq!(rig.send(&packets, usize::MAX).frames, count as u32);
        rig.flush();
        assert_eq!(rig.taken(), packets);
    }
}

#[test]
fn a_packet_alone_goes_as_it_is_and_is_counted_by_port_only() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, 1);
    let lone = [packet(60, Some(21), 7)];
    let sent = rig.send(&lone, usize::MAX);
    assert_eq!((sent.frames, sent.bytes), (1, 60));
    assert_eq!(rig.taken(), lone);
    let [out, _] = rig.counted();
    assert_eq!((out.packets, out.frames, out.aggregates), (1, 1, 0));
    let hop = rig.member.traffic.of(0).hop(paflow::Nfi::new(2).unwrap());
    assert_eq!((hop.aggregates.get(), hop.packets.get()), (0, 0));
}
