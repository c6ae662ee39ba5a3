//! FLOW_MODs, lookups and timeouts against a list with linear search.

use crate::controller::{FlowMod, Rig, add_ports, apply, count_packets, output, oxm};
use openflow::{Cache, Key, Switch, To};
use proptest::prelude::*;

/// A match on few values, so that flows overlap: port, protocol, destination and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Small {
    in_port: Option<u8>,
    protocol: Option<u8>,
    destination: Option<(u8, u8)>,
}

impl Small {
    fn fields(&self) -> Vec<Vec<u8>> {
        let mut fields = Vec::new();
        fields.extend(self.in_port.map(|port| oxm(0, false, &[0, 0, 0, port])));
        if self.protocol.is_some() || self.destination.is_some() {
            fields.push(oxm(5, false, &[8, 0]));
        }
        fields.extend(self.protocol.map(|protocol| oxm(10, false, &[protocol])));
        fields.extend(self.destination.map(|(last, bits)| {
            let mask = mask(bits);
            let address = 0x0a00_0000 | u32::from(last) & mask;
            match bits {
                32 => oxm(12, false, &address.to_be_bytes()),
                _ => oxm(12, true, &[address & mask, mask].map(u32::to_be_bytes).concat()),
            }
        }));
        fields
    }

    fn matches(&self, packet: &Packet) -> bool {
        self.in_port.is_none_or(|port| port == packet.in_port)
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && self.destination.is_none_or(|(last, bits)| (last ^ packet.last) & mask(bits) as u8 == 0)
    }

    /// Reports whether both match the same packets.
    fn same(&self, other: &Small) -> bool {
        let normal = |small: &Small| small.destination.map(|(last, bits)| (last & mask(bits) as u8, bits));
        let ip = |small: &Small| small.protocol.is_some() || small.destination.is_some();
        let parts = (self.in_port, self.protocol, normal(self), ip(self));
        parts == (other.in_port, other.protocol, normal(other), ip(other))
    }

    fn is_within(&self, wider: &Small) -> bool {
        let ip = |small: &Small| small.protocol.is_some() || small.destination.is_some();
        let narrower = match (self.destination, wider.destination) {
            (_, None) => true,
            (None, _) => false,
            (Some((a, own)), Some((b, bits))) => own >= bits && (a ^ b) & mask(bits) as u8 == 0,
        };
        narrower
            && wider.in_port.is_none_or(|port| self.in_port == Some(port))
            && wider.protocol.is_none_or(|protocol| self.protocol == Some(protocol))
            && (!ip(wider) || ip(self))
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX << (32 - u32::from(bits))
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    in_port: u8,
    protocol: u8,
    last: u8,
}

impl Packet {
    fn key(&self) -> Key {
        let mut frame = [0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = self.protocol;
        frame[30..34].copy_from_slice(&[10, 0, 0, self.last]);
        Key::extract(&frame, self.in_port.into(), 0).unwrap()
    }
}

fn all_packets() -> impl Iterator<Item = Packet> {
    (1..3).flat_map(|in_port| {
        [6, 17].into_iter().flat_map(move |protocol| (0..8).map(move |last| Packet { in_port, protocol, last }))
    })
}

fn small() -> impl Strategy<Value = Small> {
    let protocol = prop_oneof![Just(6u8), Just(17)];
    let parts = (prop::option::of(1u8..3), prop::option::of(protocol), prop::option::of((0u8..8, 29u8..=32)));
    parts.prop_map(|(in_port, protocol, destination)| Small { in_port, protocol, destination })
}

#[derive(Clone, Debug)]
struct Change {
    command: u8,
    priority: u16,
    matches: Small,
    port: u32,
    cookie: u64,
    cookie_mask: u64,
    out_port: u32,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let command = prop_oneof![6 => Just(0u8), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(4)];
    let any_port = prop_oneof![3 => Just(u32::MAX), 1 => 1u32..4];
    let change =
        (command, 0u16..4, small(), 1u32..4, 0u64..3, prop_oneof![2 => Just(0), 1 => Just(u64::MAX)], any_port);
    prop::collection::vec(
        change.prop_map(|(command, priority, matches, port, cookie, cookie_mask, out_port)| Change {
            command,
            priority,
            matches,
            port,
            cookie,
            cookie_mask,
            out_port,
        }),
        1..30,
    )
}

/// The list of flows: priority, match, output, cookie.
type Model = Vec<(u16, Small, u32, u64)>;

fn model(list: &mut Model, change: &Change) {
    let meant = |(priority, matches, port, cookie): &(u16, Small, u32, u64)| {
        let strict = matches!(change.command, 2 | 4);
        let deletes = change.command >= 3;
        (if strict {
            *priority == change.priority && matches.same(&change.matches)
        } else {
            matches.is_within(&change.matches)
        }) && (cookie ^ change.cookie) & change.cookie_mask == 0
            && (!deletes || change.out_port == u32::MAX || *port == change.out_port)
    };
    match change.command {
        0 => {
            list.retain(|(priority, matches, ..)| *priority != change.priority || !matches.same(&change.matches));
            list.push((change.priority, change.matches, change.port, change.cookie));
        }
        1 | 2 => list.iter_mut().filter(|flow| meant(flow)).for_each(|flow| flow.2 = change.port),
        _ => list.retain(|flow| !meant(flow)),
    }
}

fn message(change: &Change) -> Vec<u8> {
    let mut out = FlowMod::new(change.command, change.priority, &change.matches.fields());
    out.cookie = change.cookie;
    out.cookie_mask = change.cookie_mask;
    out.out_port = change.out_port;
    if change.command < 3 {
        out.instructions = apply(&[output(change.port)]);
    }
    out.bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_table_is_the_list(changes in changes()) {
        let mut rig = Rig::new();
        rig.switch = Switch::new(Default::default(), 1000, 1);
        add_ports(&mut rig.switch, 3);
        let id = rig.connect();
        let mut list = Model::new();
        let mut cache = Cache::new(16, 1);
        for change in changes {
            let version = rig.switch.tables().all()[0].version();
            rig.done(id, &message(&change));
            let before = list.clone();
            model(&mut list, &change);
            let (tables, table) = (rig.switch.tables(), &rig.switch.tables().all()[0]);
            prop_assert_eq!(table.len(), list.len());
            prop_assert!(table.version() != version || before == list, "a change has a new version");
            let snapshot = tables.rules().clone();
            for packet in all_packets() {
                let matching: Vec<_> = list.iter().filter(|(_, matches, ..)| matches.matches(&packet)).collect();
                let highest = matching.iter().map(|flow| flow.0).max();
                let allowed: Vec<_> = matching.iter().filter(|flow| Some(flow.0) == highest).map(|flow| flow.2).collect();
                let key = packet.key();
                let lookup = tables.lookup(0, &key);
                let port = lookup.found.map(|rule| match rule.program.steps[0].to {
                    To::Port(port) => port,
                    other => panic!("{other:?}"),
                });
                prop_assert!(port.map_or(allowed.is_empty(), |port| allowed.contains(&port)), "{:?} {:?}", port, allowed);
                prop_assert_eq!(lookup.found.map(|rule| rule.flow), snapshot.lookup(0, &key).found.map(|slot| snapshot.get(*slot).unwrap().flow));

                // Keys that agree in the consulted bits get the same flow.
                for other in all_packets() {
                    let other = other.key();
                    if other.and(&lookup.consulted) == key.and(&lookup.consulted) {
                        let same = tables.lookup(0, &other).found.map(|rule| rule.flow);
                        prop_assert_eq!(same, lookup.found.map(|rule| rule.flow));
                    }
                }
                // A cached result equals the looked-up one.
                let flow = lookup.found.map(|rule| rule.flow);
                if let Some(cached) = cache.get(&key, table.version()) {
                    prop_assert_eq!(cached, flow);
                }
                cache.insert(&key, table.version(), flow);
                prop_assert_eq!(cache.get(&key, table.version()), Some(flow));
                prop_assert_eq!(cache.get(&key, table.version() + 1), None);
            }
        }
    }
}

/// Builds a FLOW_MOD that adds a flow with output 1.
fn add(priority: u16, fields: &[Vec<u8>]) -> FlowMod {
    let mut change = FlowMod::new(0, priority, fields);
    change.instructions = apply(&[output(1)]);
    change
}

#[test]
fn flags_of_flow_mod() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let port = |port: u8| [oxm(0, false, &[0, 0, 0, port])];
    rig.done(id, &add(5, &port(1)).bytes());
    let counted = |rig: &mut Rig| {
        let flow = rig.switch.tables().all()[0].flows().next().unwrap();
        (flow.packets, flow.cookie)
    };
    let count = |rig: &mut Rig| {
        let packet = Packet { in_port: 1, protocol: 6, last: 0 };
        count_packets(&mut rig.switch, &packet.key(), 3, 300, 10);
    };
    count(&mut rig);
    // Adding the same flow again keeps its counters, unless they are reset.
    rig.done(id, &FlowMod { cookie: 8, ..add(5, &port(1)) }.bytes());
    assert_eq!(counted(&mut rig), (3, 8));
    count(&mut rig);
    let mut modify = add(5, &port(1));
    modify.command = 1;
    rig.done(id, &modify.bytes());
    assert_eq!(counted(&mut rig), (6, 8));
    rig.done(id, &FlowMod { flags: 4, ..modify }.bytes());
    assert_eq!(counted(&mut rig), (0, 8));
    count(&mut rig);
    rig.done(id, &FlowMod { flags: 4, ..add(5, &port(1)) }.bytes());
    assert_eq!(counted(&mut rig), (0, 0));

    // Overlaps count within a priority only, and a flow overlaps itself.
    assert_eq!(rig.refused(id, &FlowMod { flags: 2, ..add(5, &[]) }.bytes()), (5, 3));
    rig.done(id, &FlowMod { flags: 2, ..add(6, &[]) }.bytes());
    rig.done(id, &FlowMod { flags: 2, ..add(5, &port(2)) }.bytes());
    assert_eq!(rig.refused(id, &FlowMod { flags: 2, ..add(5, &port(2)) }.bytes()), (5, 3));
    assert_eq!(rig.refused(id, &FlowMod { flags: 64, ..add(5, &port(2)) }.bytes()), (5, 7));
    assert_eq!(rig.refused(id, &FlowMod { command: 5, ..add(5, &port(2)) }.bytes()), (5, 6));
    assert_eq!(rig.refused(id, &FlowMod { table: 17, ..add(5, &port(2)) }.bytes()), (5, 2));
    assert_eq!(rig.refused(id, &FlowMod { table: 255, ..add(5, &port(2)) }.bytes()), (5, 2));
    assert_eq!(rig.refused(id, &FlowMod { buffer: 3, ..add(5, &port(2)) }.bytes()), (1, 8));

    // The table holds four flows.
    rig.done(id, &add(7, &[]).bytes());
    assert_eq!(rig.refused(id, &add(8, &[]).bytes()), (5, 1));
    rig.done(id, &add(7, &[]).bytes());
    assert_eq!(rig.switch.tables().all()[0].len(), 4);
}

#[test]
fn timeouts_end_flows_and_say_so() {
    let mut rig = Rig::new();
    let id = rig.connect();
    rig.now = 10_000;
    rig.done(id, &FlowMod { idle: 2, flags: 1, cookie: 1, ..add(1, &[]) }.bytes());
    rig.done(id, &FlowMod { hard: 3, flags: 1, cookie: 2, ..add(2, &[]) }.bytes());
    rig.done(id, &FlowMod { idle: 1, hard: 9, cookie: 3, ..add(3, &[]) }.bytes());
    let key = Packet { in_port: 1, protocol: 6, last: 0 }.key();
    let flow = rig.switch.tables().lookup(0, &key).found.unwrap().flow;
    assert_eq!(rig.switch.tables().all()[0].get(flow).unwrap().cookie, 3);
    let cookies = |rig: &Rig| rig.switch.tables().all()[0].flows().map(|flow| flow.cookie).collect::<Vec<_>>();
    rig.switch.expire(10_999);
    assert_eq!(cookies(&rig), [1, 2, 3]);
    count_packets(&mut rig.switch, &key, 1, 60, 10_900);
    rig.switch.expire(11_800);
    assert_eq!(cookies(&rig), [1, 2, 3]);
    rig.switch.expire(11_900);
    assert_eq!(cookies(&rig), [1, 2]);
    assert_eq!(rig.take(id), [], "nobody asked to be told of this one");
    rig.switch.expire(12_000);
    assert_eq!(cookies(&rig), [2]);
    let told = &rig.take(id)[0];
    assert_eq!((told.kind, &told.body[..8], told.body[10]), (11, &[0, 0, 0, 0, 0, 0, 0, 1][..], 0));
    rig.switch.expire(13_000);
    assert_eq!(cookies(&rig), []);
    let told = &rig.take(id)[0];
    let duration = u32::from_be_bytes([told.body[12], told.body[13], told.body[14], told.body[15]]);
    assert_eq!((told.kind, told.body[7], told.body[10], duration), (11, 2, 1, 3));

    rig.done(id, &FlowMod { flags: 1, ..add(4, &[]) }.bytes());
    let told = &rig.ask(id, &FlowMod::new(3, 0, &[]).bytes())[0];
    assert_eq!((told.kind, told.body[10]), (11, 2));
}

#[test]
fn later_fragments_match_no_port() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let udp = [oxm(5, false, &[8, 0]), oxm(10, false, &[17])];
    rig.done(id, &FlowMod { cookie: 1, ..add(1, &udp) }.bytes());
    rig.done(id, &FlowMod { cookie: 2, ..add(2, &[&udp[..], &[oxm(16, false, &[0, 0])]].concat()) }.bytes());
    let mut frame = [0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = 17;
    let cookie = |rig: &Rig, frame: &[u8]| {
        rig.switch.tables().lookup(0, &Key::extract(frame, 1, 0).unwrap()).found.map(|rule| rule.cookie)
    };
    assert_eq!(cookie(&rig, &frame), Some(2), "it goes to port 0");
    // More fragments, and this is not the first.
    frame[20..22].copy_from_slice(&[0x20, 1]);
    assert_eq!(cookie(&rig, &frame), Some(1));
    let fields = rig.ask(id, &message_of_flows());
    assert!(
        fields[0].body.windows(6).any(|bytes| bytes == [0x80, 0, 16 << 1, 2, 0, 0]),
        "the match is shown as it was set"
    );
}

/// Builds a request for all flows of table 0.
fn message_of_flows() -> Vec<u8> {
    let filter = [&[0, 0, 0, 0][..], &[0xff; 8], &[0; 4], &[0; 16], &[0, 1, 0, 4, 0, 0, 0, 0]].concat();
    crate::controller::message(18, 1, &[&[0, 1, 0, 0, 0, 0, 0, 0][..], &filter].concat())
}
