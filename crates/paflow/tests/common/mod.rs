//! Routes of all kinds, and aggregates made from them.
#![allow(dead_code)] // Each test uses its part.

use packet::MacAddr;
use paflow::encode::Part;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::{Nfi, Planner, Template, encode};
use proptest::prelude::*;

pub fn tunnels() -> impl Strategy<Value = Tunnel> {
    let addresses = prop_oneof![
        any::<(u32, u32)>().prop_map(|(s, d)| Addresses::V4 { source: s.into(), destination: d.into() }),
        any::<(u128, u128)>().prop_map(|(s, d)| Addresses::V6 { source: s.into(), destination: d.into() }),
    ];
    let checksum = prop_oneof![Just(Checksum::Zero), Just(Checksum::Computed)];
    (addresses, 1..=u16::MAX, any::<u8>(), checksum).prop_map(|(addresses, source_port, hop_limit, checksum)| Tunnel {
        addresses,
        source_port,
        destination_port: paflow::header::UDP_PORT,
        hop_limit,
        checksum,
    })
}

fn macs() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

pub fn routes() -> impl Strategy<Value = Route> {
    let carrier = prop_oneof![
        Just(Carrier::Ethernet),
        tunnels().prop_map(Carrier::Udp),
        (tunnels(), 0u32..1 << 24, macs(), macs()).prop_map(|(tunnel, vni, source, destination)| {
            let tunnel = Tunnel { destination_port: paflow::table::key::VXLAN_PORT, ..tunnel };
            Carrier::Vxlan { tunnel, vni, source, destination }
        }),
    ];
    let vlan = prop::option::of(1u16..4095);
    (macs(), macs(), vlan, carrier).prop_map(|(source, destination, vlan, carrier)| Route {
        source,
        destination,
        vlan,
        routed: false,
        carrier,
    })
}

pub fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 1..40)
}

/// Aggregates packets to one next hop, even single ones. Returns the frames, each with the indices of its packets.
pub fn aggregates(route: &Route, mtu: u16, packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<usize>)> {
    let template = Template::new(route, mtu).unwrap();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let lengths: Vec<u16> = packets.iter().map(|packet| packet.len() as u16).collect();
    let mut planner = Planner::new();
    let plan = planner.plan(&lengths, &vec![Nfi::new(1); packets.len()], |_| template.room());
    let mut out = vec![0xaa; mtu as usize + 18];
    plan.groups()
        .iter()
        .map(|group| {
            let len = encode::write(&plan, group, &template, &slices, &mut out).unwrap();
            let mut gathered = Vec::new();
            for part in plan.parts(group) {
                match part {
                    Part::Framing(framing) => gathered.extend_from_slice(&framing),
                    Part::Packet(index) => gathered.extend_from_slice(slices[index]),
                }
            }
            assert_eq!(gathered, &out[template.len()..len], "gathered or written, it is the same");
            (out[..len].to_vec(), plan.members(group).collect())
        })
        .collect()
}
