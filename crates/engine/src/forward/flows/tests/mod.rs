//! Tests of bridges that forward by flows, with queues that only record what they are given.

mod controllers;
mod rewriting;

use super::*;
use crate::drops::{Drops, Reason};
use crate::forward::bridge::Bridge;
use crate::forward::mac_table::MacTable;
use crate::forward::tests::changed::{Guest, slow};
use crate::forward::tests::{Delivered, remembering};
use crate::forward::{Arrival, BridgePlan, Injection, Output, Scratch};
use crate::spec::Vlan;
use ::openflow::ofp::{port, port_config};
use ::openflow::{
    Action, Band, Bucket, Count, Counters, Excess, FORWARDING, Field, FlowId, Group, GroupKind, Match, Meter,
    PortConfig, Program, Rule, Rules, Slot, Tally, To, TokenBucket, WantedPackets,
};
use handover::{EventNotifier, Punt};
use packet::offload::{Cut, Message, Offload};
use packet::{BurstStorage, MAX_SEGMENTS, Segment, unfinished};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::sync::Arc;

struct Rig {
    datapath: Arc<Datapath>,
    plan: BridgePlan,
    outputs: Vec<Output>,
    delivered: Vec<Delivered>,
    drops: Drops,
    storage: Box<BurstStorage>,
    scratch: Scratch,
    /// Slots of the flows, by number, with their counts at the last reading.
    slots: RefCell<Vec<(Arc<Slot>, Count)>>,
    looked_up: Cell<(u64, u64)>,
}

impl Rig {
    /// Returns a bridge of four ports, numbered from 1 on.
    fn new(standalone: bool) -> Rig {
        let datapath = Arc::new(Datapath::new(Arc::new(EventNotifier::new().unwrap())));
        datapath.prepare(1, standalone);
        datapath.want(WantedPackets(0b011));
        let mut bridge = Bridge::of(MacTable::new(4, 4096, 300, &[]).unwrap(), &[Some(&Vlan::Ignore); 4]);
        let numbered = datapath.number(&["a", "b", "c", "d"].map(String::from));
        let configs = numbered.configs.clone();
        bridge.flows = Some(numbered);
        let (mut outputs, delivered) = remembering(4);
        outputs.iter_mut().zip(&configs[..]).for_each(|(output, config)| output.terms.config = Some(config.clone()));
        Rig {
            datapath,
            plan: BridgePlan::new(Arc::new(bridge), (0..4).collect(), 0),
            outputs,
            delivered,
            drops: Drops::default(),
            storage: Box::default(),
            scratch: Scratch::default(),
            slots: RefCell::default(),
            looked_up: Cell::default(),
        }
    }

    /// Sets flows in table 0: priority, match, actions. Their ids are their indices.
    fn set(&self, flows: &[(u16, Match, &[Action])]) {
        let of_table =
            |(priority, matches, actions): &(u16, Match, &[Action])| (0, *priority, *matches, Program::of(actions));
        self.set_tables(&flows.iter().map(of_table).collect::<Vec<_>>());
    }

    /// Sets flows: table, priority, match, program. Their ids are their indices.
    fn set_tables(&self, flows: &[(u8, u16, Match, Program)]) {
        self.add_to(Rules::default(), flows);
    }

    /// Adds flows to rules with groups and meters, and sets them.
    fn add_to(&self, mut rules: Rules, flows: &[(u8, u16, Match, Program)]) {
        let counters = self.datapath.counters();
        let mut slots = self.slots.borrow_mut();
        while slots.len() < flows.len() {
            slots.push((Arc::new(counters.slot().unwrap()), Count::default()));
        }
        for (id, (table, priority, matches, program)) in flows.iter().enumerate() {
            let (flow, cookie) = (FlowId(id as u64), 100 + id as u64);
            let is_miss = *priority == 0 && *matches == Match::any();
            let slot = slots[id].0.clone();
            let rule = Rule { flow, slot, cookie, table: *table, is_miss, program: program.clone() };
            rules.insert(*table, matches, *priority, rule);
        }
        self.datapath.set(rules);
    }

    /// Sends a burst into port `from`, each frame cut in two. Returns the frames that left each port.
    fn send(&mut self, from: usize, frames: &[Vec<u8>], cut: u32) -> Vec<Vec<Vec<u8>>> {
        let mut burst = self.storage.start();
        for frame in frames {
            let (a, b) = Segment::from(&frame[..]).split_at(cut);
            assert!(burst.push_segments([a, b].into_iter().filter(|s| !s.is_empty())));
        }
        let frames = burst.frames();
        let arrival = Arrival { frames, from, queue: 0, now: 0, outputs: &self.outputs, drops: &self.drops };
        self.plan.forward(arrival, &mut self.scratch);
        self.taken()
    }

    /// Sends a packet of a controller.
    fn inject(&mut self, in_port: u32, actions: &[Action], data: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let emissions = Emission::all(in_port, actions, data);
        let injection =
            Injection { emissions: &emissions, outputs: &self.outputs, drops: &self.datapath.drops, now: 0 };
        self.plan.inject(injection, &mut self.scratch);
        self.taken()
    }

    fn taken(&self) -> Vec<Vec<Vec<u8>>> {
        self.delivered.iter().map(|d| std::mem::take(&mut *d.lock().unwrap())).collect()
    }

    /// Returns flow, packets and bytes of all that was counted since the last call; and lookups, and those with a flow.
    fn harvest(&self) -> (Vec<[u64; 3]>, (u64, u64)) {
        let lanes = self.datapath.counters().lanes();
        let mut counted = Vec::new();
        for (id, (slot, told)) in self.slots.borrow_mut().iter_mut().enumerate() {
            let sum = slot.sum(&lanes);
            let Count { packets, bytes } = sum.since(std::mem::replace(told, sum));
            if packets > 0 {
                counted.push([id as u64, packets, bytes]);
            }
        }
        let packets = self.datapath.stats("br", &[], self.plan.learning.bridge.flows.as_ref().unwrap());
        let (packets, found) = (packets.lookups, packets.matched);
        let before = self.looked_up.replace((packets, found));
        (counted, (packets - before.0, found - before.1))
    }

    fn dropped(&self) -> Vec<(String, u64)> {
        self.drops.named().into_iter().collect()
    }
}

fn output(port: u32) -> Action {
    Action::Output { port, max_len: 0xffff }
}

fn udp(to: u16, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| at as u8).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    frame[36..38].copy_from_slice(&to.to_be_bytes());
    frame[40..42].copy_from_slice(&[0, 0]);
    frame
}

fn to_udp(port: u16) -> Match {
    let udp = Match::any().with(Field::EthType, 0x0800, u128::MAX).with(Field::IpProto, 17, u128::MAX);
    udp.with(Field::UdpDst, port.into(), u128::MAX)
}

#[test]
fn without_flows_frames_are_bridged_or_dropped() {
    let mut rig = Rig::new(true);
    let out = rig.send(0, &[udp(1, 60)], 60);
    assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1, 1]);
    rig.datapath.prepare(1, false);
    assert_eq!(rig.send(0, &[udp(1, 60), udp(2, 60)], 60).concat().len(), 0);
    assert_eq!(rig.dropped(), [("no-flow".into(), 2)]);
    rig.datapath.prepare(1, true);
    rig.set(&[(1, to_udp(7), &[])]);
    assert_eq!(rig.send(0, &[udp(1, 60), udp(7, 60)], 60).concat().len(), 0, "with a flow it is no bridge any more");
    assert_eq!(rig.dropped(), [("flow-drop".into(), 1), ("no-flow".into(), 3)]);
    rig.set(&[]);
    assert_eq!(rig.send(0, &[udp(1, 60)], 60).concat().len(), 3);
}

#[test]
fn frames_go_where_their_flows_say() {
    let mut rig = Rig::new(true);
    rig.set(&[
        (9, to_udp(1), &[output(3)]),
        (9, to_udp(2), &[output(port::IN_PORT)]),
        (9, to_udp(3), &[output(port::FLOOD)]),
        (9, to_udp(4), &[output(1)]),
        (9, to_udp(5), &[output(77)]),
        (9, to_udp(6), &[output(2), output(4), output(2)]),
        (8, Match::any().with(Field::InPort, 2, u128::MAX), &[output(4)]),
    ]);
    let burst: Vec<_> = (1..=7).map(|to| udp(to, 60)).collect();
    let out = rig.send(0, &burst, 20);
    assert_eq!(out[0], [burst[1].clone()]);
    assert_eq!(out[1], [burst[2].clone(), burst[5].clone(), burst[5].clone()]);
    assert_eq!(out[2], [burst[0].clone(), burst[2].clone()]);
    assert_eq!(out[3], [burst[2].clone(), burst[5].clone()]);
    assert_eq!(
        rig.dropped(),
        [("hairpin".into(), 1), ("no-flow".into(), 1), ("unknown-port".into(), 1)],
        "its own port, no flow, no port"
    );
    // The whole burst goes the same way.
    assert_eq!(rig.send(1, &[udp(7, 60), udp(8, 60)], 60)[3].len(), 2);
    let (counted, lookups) = rig.harvest();
    let once = |id| [id, 1, 60];
    assert_eq!(counted, [once(0), once(1), once(2), once(3), once(4), once(5), [6, 2, 120]]);
    assert_eq!(lookups, (9, 8));
    assert_eq!(rig.harvest(), (vec![], (0, 0)), "told once");
}

/// Returns the program that applies and writes these actions, and sends packets on.
fn program(applied: &[Action], written: &[Action], next: Option<u8>) -> Program {
    Program { written: written.into(), next, ..Program::of(applied) }
}

#[test]
fn packets_go_from_table_to_table_with_their_metadata() {
    let mut rig = Rig::new(false);
    let metadata = |value, mask| Some((value, mask));
    let with = |value: u128| Match::any().with(Field::Metadata, value, u128::MAX);
    rig.set_tables(&[
        (0, 1, to_udp(1), Program { metadata: metadata(0x12, 0xff), ..program(&[], &[], Some(3)) }),
        (0, 1, to_udp(2), Program { metadata: metadata(0x77, 0xff), ..program(&[output(3)], &[], Some(3)) }),
        (3, 1, Match::any(), Program { metadata: metadata(0x30, 0xf0), ..program(&[], &[], Some(7)) }),
        (7, 2, with(0x32), program(&[output(2)], &[], None)),
    ]);
    for turn in 0..2 {
        let out = rig.send(0, &[udp(1, 60), udp(2, 60), udp(3, 60)], 60);
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1, 0], "turn {turn}");
        assert_eq!(rig.harvest().0, [[0, 1, 60], [1, 1, 60], [2, 2, 120], [3, 1, 60]]);
    }
    // One was sent before it found no flow in table 7, one found none in table 0.
    assert_eq!((rig.datapath.missed()[0], rig.datapath.missed()[7]), (2, 2));
    assert_eq!(rig.dropped(), [("no-flow".into(), 2)]);
    assert_eq!(rig.send(0, &[udp(1, 60), udp(1, 70)], 60)[1].len(), 2, "all go the same way");
}

#[test]
fn later_tables_match_the_changed_frame() {
    let mut rig = Rig::new(false);
    let vid = |vid: u128| Match::any().with(Field::VlanVid, 0x1000 | vid, u128::MAX);
    let push = |vid: u128| [Action::PushVlan(0x8100), Action::SetField(Field::VlanVid, 0x1000 | vid)];
    rig.set_tables(&[
        (0, 1, to_udp(1), program(&push(5), &[], Some(1))),
        (0, 2, vid(9), program(&[Action::PopVlan], &[], Some(1))),
        (1, 1, vid(5), program(&[Action::SetField(Field::UdpDst, 99)], &[], Some(2))),
        (2, 1, vid(5), program(&[Action::PopVlan], &[output(3)], Some(4))),
        (4, 1, to_udp(99), program(&[], &[Action::DecIpTtl], None)),
    ]);
    let mut tagged = udp(1, 60);
    tagged.splice(12..12, [0x81, 0, 0, 9, 0x81, 0, 0, 5]);
    let mut dying = udp(1, 60);
    dying[22] = 1;
    let out = rig.send(0, &[udp(1, 60), tagged, udp(2, 60), dying], 20);
    assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 2, 0]);
    for frame in &out[2] {
        assert_eq!((frame.len(), &frame[12..14], &frame[36..38], frame[22]), (60, &[8, 0][..], &[0, 99][..], 63));
    }
    assert_eq!(rig.dropped(), [("no-flow".into(), 1), ("ttl".into(), 1)]);
    let counts = rig.harvest().0;
    assert_eq!(
        counts.iter().map(|[id, packets, _]| [*id, *packets]).collect::<Vec<_>>(),
        [[0, 2], [1, 1], [2, 3], [3, 3], [4, 3]]
    );
}

#[test]
fn the_action_set_is_run_at_the_end_of_the_pipeline() {
    let mut rig = Rig::new(false);
    let from = |port: u128| Match::any().with(Field::InPort, port, u128::MAX);
    let clear = |written: &[Action]| Program { clears: true, ..program(&[], written, None) };
    let set = |dst| Action::SetField(Field::UdpDst, dst);
    rig.set_tables(&[
        (0, 1, Match::any(), program(&[], &[set(7), output(2)], Some(1))),
        (1, 1, from(1), program(&[output(4)], &[Action::SetField(Field::UdpSrc, 8), output(3)], None)),
        (1, 1, from(2), clear(&[])),
        (1, 1, from(3), clear(&[output(1)])),
        (1, 1, from(4), program(&[], &[set(9)], Some(15))),
        (0, 2, to_udp(5), program(&[], &[output(2)], Some(9))),
        (15, 1, Match::any(), program(&[], &[], None)),
    ]);
    let out = rig.send(0, &[udp(1, 60)], 60);
    assert_eq!(out[3], [udp(1, 60)], "what is applied at once comes first");
    assert_eq!((&out[2][0][34..38], out[1].len()), (&[0, 8, 0, 7][..], 0), "of two outputs, the later one counts");
    assert_eq!(rig.send(1, &[udp(1, 60)], 60).concat().len(), 0);
    assert_eq!(rig.dropped(), [("flow-drop".into(), 1)]);
    assert_eq!(rig.send(2, &[udp(1, 60)], 60)[0], [udp(1, 60)]);
    assert_eq!(rig.send(3, &[udp(1, 60)], 60)[1], [udp(9, 60)]);
    // A packet without a flow in a table is dropped with its set: alone, and among others.
    assert_eq!(rig.send(0, &[udp(5, 60)], 60).concat().len(), 0);
    assert_eq!(rig.send(2, &[udp(5, 60), udp(1, 60)], 60).concat(), [udp(1, 60)]);
    assert_eq!(rig.dropped(), [("flow-drop".into(), 1), ("no-flow".into(), 2)]);
}

#[test]
fn a_packet_may_pass_all_tables() {
    let mut rig = Rig::new(false);
    let step =
        |table: u8| (table, 1, Match::any(), program(&[], &[], Some(table + 1).filter(|next| *next < FORWARDING)));
    let mut flows: Vec<_> = (0..FORWARDING).map(step).collect();
    flows[15].3 = Program::of(&[output(2)]);
    flows[9].3.metadata = Some((1, 1));
    rig.set_tables(&flows);
    assert_eq!(rig.send(0, &[udp(1, 60), udp(2, 60)], 60)[1].len(), 2);
    assert!(rig.harvest().0.iter().all(|[_, packets, _]| *packets == 2));
}

/// Returns a group with these buckets; those that fail over watch their ports.
fn group(counters: &Arc<Counters>, kind: GroupKind, buckets: &[(&[Action], To)]) -> Group {
    let tally = || Tally::new(counters).unwrap();
    let bucket = |(changes, to): &(&[Action], To)| {
        let watched = if let (GroupKind::FastFailover, To::Port(number)) = (kind, to) { Some(*number) } else { None };
        Bucket { weight: 1, watched, changes: (*changes).into(), to: Some(*to), tally: tally() }
    };
    Group { kind, buckets: buckets.iter().map(bucket).collect(), tally: tally() }
}

/// Every group and every bucket counts, and a frame may have 256 outputs.
#[test]
fn outputs_of_a_frame_are_limited() {
    let mut rig = Rig::new(false);
    let hundred = [(&[][..], To::Port(2)); 100];
    let mut rules = Rules::default();
    rules.set_group(1, Some(Arc::new(group(&rig.datapath.counters(), GroupKind::All, &hundred))));
    let actions = [Action::Group(1), Action::Group(1), Action::Group(1), output(3)];
    rig.add_to(
        rules,
        &[(0, 1, to_udp(1), program(&actions, &[], None)), (0, 1, to_udp(2), program(&actions[2..], &[], None))],
    );
    for _ in 0..2 {
        let out = rig.send(0, &[udp(1, 60), udp(2, 60)], 60);
        assert_eq!([out[1].len(), out[2].len()], [256 - 3 + 100, 1], "the second frame has all of its own");
    }
    assert_eq!(rig.dropped(), [("outputs".into(), 2)]);
}

#[test]
fn groups_send_copies_and_leave_the_packet_unchanged() {
    let mut rig = Rig::new(false);
    let counters = rig.datapath.counters();
    let set = |dst| Action::SetField(Field::UdpDst, dst);
    let group = |kind, buckets: &[(&[Action], To)]| group(&counters, kind, buckets);
    let all = group(
        GroupKind::All,
        &[(&[set(7)], To::Port(2)), (&[], To::Port(3)), (&[Action::PushVlan(0x8100)], To::InPort)],
    );
    let failover = group(GroupKind::FastFailover, &[(&[], To::Port(2)), (&[], To::Port(4))]);
    let mut rules = Rules::default();
    [(1, all), (2, failover)].into_iter().for_each(|(id, group)| rules.set_group(id, Some(Arc::new(group))));
    rig.add_to(
        rules,
        &[
            (0, 1, to_udp(1), program(&[Action::Group(1), output(4)], &[], None)),
            (0, 1, to_udp(2), program(&[set(5)], &[Action::Group(1), output(4)], None)),
            (0, 1, to_udp(3), program(&[Action::Group(9)], &[], None)),
            (0, 1, to_udp(4), program(&[Action::Group(2)], &[], None)),
        ],
    );
    let mut tagged = udp(1, 60);
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    let out = rig.send(0, &[udp(1, 60), udp(2, 60), udp(3, 60)], 20);
    assert_eq!(out[1], [udp(7, 60), udp(7, 60)]);
    assert_eq!(out[2], [udp(1, 60), udp(5, 60)]);
    assert_eq!(out[3], [udp(1, 60)], "in a set, the group has the output's place");
    assert_eq!((out[0].len(), &out[0][0]), (2, &tagged));
    assert_eq!(rig.dropped(), [("unknown-port".into(), 1)]);
    // A controller's packet goes through a group, too, and has nothing of the packets before it.
    let out = rig.inject(port::CONTROLLER, &[Action::Group(1)], &udp(8, 70));
    assert_eq!((&out[1], &out[2]), (&vec![udp(7, 70)], &vec![udp(8, 70)]));
    // The first port of the other group has no link.
    rig.outputs.iter().enumerate().for_each(|(port, output)| output.running.set(0, port != 1));
    assert_eq!(rig.send(0, &[udp(4, 60)], 60)[3], [udp(4, 60)]);
    // A port that is forbidden to forward is live, one that is down is not (Section 6.5).
    rig.outputs.iter().for_each(|output| output.running.set(0, true));
    rig.datapath.configure(2, PortConfig(port_config::NO_FWD));
    assert_eq!(rig.send(0, &[udp(4, 60)], 60).concat().len(), 0);
    rig.datapath.configure(2, PortConfig(port_config::DOWN));
    assert_eq!(rig.send(0, &[udp(4, 60)], 60)[3], [udp(4, 60)]);
}

#[test]
fn meters_drop_and_remark_packets_beyond_their_rates() {
    let mut rig = Rig::new(false);
    let counters = rig.datapath.counters();
    let tally = || Tally::new(&counters).unwrap();
    // A packet a year, after a burst.
    let meter = |excess: &[(u64, Excess)]| {
        let band = |(burst, excess): &(u64, Excess)| {
            let bucket = TokenBucket::new(NonZeroU64::MIN, *burst);
            Band { rate: *burst as u32, bucket, excess: *excess, tally: tally() }
        };
        Arc::new(Meter { counts_packets: true, bands: excess.iter().map(band).collect(), tally: tally() })
    };
    let meters = [meter(&[(5, Excess::Drop), (3, Excess::Remark(1))]), meter(&[(1, Excess::Drop)])];
    let mut rules = Rules::default();
    (1..).zip(&meters).for_each(|(id, meter)| rules.set_meter(id, Some(meter.clone())));
    let through = |meter, program| Program { meter: Some(meter), ..program };
    let dscp = |dscp| to_udp(1).with(Field::IpDscp, dscp, u128::MAX);
    rig.add_to(
        rules,
        &[
            (0, 1, to_udp(1), through(1, program(&[], &[], Some(1)))),
            (0, 1, to_udp(2), through(2, program(&[output(2)], &[], None))),
            (1, 1, dscp(10), program(&[output(2)], &[], None)),
            (1, 1, dscp(12), program(&[output(3)], &[], None)),
        ],
    );
    let assured = |class: u8| {
        let mut frame = udp(1, 60);
        frame[15] = class << 2;
        frame
    };
    let burst: Vec<_> = [vec![assured(10); 7], vec![udp(2, 60); 3]].concat();
    let out = rig.send(0, &burst, 60);
    // Three as they were, two remarked and found by that in the next table, two dropped; and one of three.
    assert_eq!((out[1].len(), out[2].len()), (4, 2));
    assert!(out[2].iter().all(|frame| frame[15] >> 2 == 12), "{out:?}");
    assert_eq!(rig.dropped(), [("meter".into(), 4)]);
    let lanes = counters.lanes();
    let counted = |tally: &Tally| tally.sum(&lanes).packets;
    let [first, second] = &meters;
    assert_eq!((counted(&first.tally), counted(&second.tally)), (7, 3));
    assert_eq!(first.bands.iter().map(|band| counted(&band.tally)).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn unused_tables_report_their_last_flows_and_are_freed() {
    let mut rig = Rig::new(true);
    rig.set(&[(1, Match::any(), &[output(2)])]);
    rig.send(0, &[udp(1, 60)], 60);
    rig.set(&[(1, Match::any(), &[output(3)])]);
    assert_eq!(rig.harvest().0, [[0, 1, 60]]);
    assert_eq!(rig.send(0, &[udp(1, 60)], 60)[2].len(), 1, "what was cached is void");
    assert_eq!(rig.harvest().0, [[0, 1, 60]]);
    assert_eq!(rig.datapath.versions.lock().unwrap().kept(), 1);
}

#[test]
fn normal_learns_and_forwards_changed_frames() {
    let mut rig = Rig::new(false);
    rig.set(&[
        (9, to_udp(1), &[Action::SetField(Field::EthSrc, 0x0200_0000_0009), output(port::NORMAL)]),
        (1, Match::any(), &[output(port::NORMAL)]),
    ]);
    let out = rig.send(2, &[udp(1, 60), udp(2, 60)], 60);
    assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 0, 2]);
    let mut answer = udp(3, 60);
    answer[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!(rig.send(0, std::slice::from_ref(&answer), 60)[2], [answer]);
}

/// Each frame that is not sent has a reason.
#[test]
fn frames_are_complete_before_they_meet_flows() {
    let mut rig = Rig::new(false);
    rig.set(&[(1, Match::any(), &[output(2)])]);
    let (checksum, frame) = (Offload::checksum(34, 6), udp(1, 60));
    let mut finished = frame.clone();
    unfinished::as_asked([Segment::from(&frame[..])].into_iter(), 34, 6).unwrap().apply(&mut finished);
    let tcp = Cut { message: Message::Tcp4, size: 100, start: 34, header: 20, ecn: false };
    let rest = [0; MAX_SEGMENTS];
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    for left in [checksum, Offload::cut(tcp).unwrap()] {
        burst.push(Segment::from(&frame[..]));
        burst.leave(left);
    }
    // With the checksum in a piece of its own, it is in more pieces than a burst takes.
    assert!(burst.push_segments([&frame[..]].into_iter().chain(rest.chunks(1)).map(Segment::from)));
    burst.leave(checksum);
    let arrival =
        Arrival { frames: burst.frames(), from: 0, queue: 0, now: 0, outputs: &rig.outputs, drops: &rig.drops };
    rig.plan.forward(arrival, &mut rig.scratch);
    assert_eq!(rig.taken()[1], [finished]);
    assert_eq!(rig.drops.named(), [("bad-offload".to_owned(), 1), ("too-long".to_owned(), 1)].into());
}

/// The guest changes the frame as soon as the first output gets it.
#[test]
fn all_outputs_get_the_headers_that_flows_matched() {
    let before = udp(1, 300);
    let guest = Guest::new(&before);
    for actions in [&[output(2), output(3)][..], &[output(port::NORMAL)], &[output(port::FLOOD)]] {
        let mut rig = Rig::new(false);
        let (outputs, delivered) = slow(4, &guest);
        (rig.outputs, rig.delivered) = (outputs, delivered);
        rig.set(&[(1, Match::any(), actions)]);
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        let mut head = vec![0; packet::HEAD];
        guest.frame().copy_to(&mut head);
        burst.push(guest.frame());
        let arrival =
            Arrival { frames: burst.frames(), from: 0, queue: 0, now: 0, outputs: &rig.outputs, drops: &rig.drops };
        rig.plan.forward(arrival, &mut rig.scratch);
        let out = rig.taken();
        for frames in &out[1..3] {
            assert_eq!(frames[0][..packet::HEAD], head, "{actions:?}");
        }
    }
}
