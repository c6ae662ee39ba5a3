//! Flows for another switch's aggregation table, wrapped in packets that this switch sends for the controller.

use super::frames::Packet;
use super::*;
use api::Aggregation;
use api::request;
use lab::Result;

/// Builds a FLOW_MOD (OpenFlow 1.3.5, Section 7.3.4.1): in table 16, packets of this VLAN go to this next hop.
fn flow_mod(vid: u16, nfi: u16) -> Vec<u8> {
    let mut body = vec![0; 16];
    // Table, command, timeouts, priority, buffer, ports, groups, flags.
    body.extend([16, 0, 0, 0, 0, 0, 0x80, 0]);
    body.extend([0xff; 12]);
    body.extend([0; 4]);
    // The match: one field of two bytes, and padding.
    body.extend([0, 1, 0, 10, 0x80, 0, 6 << 1, 2]);
    body.extend((0x1000 | vid).to_be_bytes());
    body.extend([0; 6]);
    // Write-metadata.
    body.extend([0, 2, 0, 24, 0, 0, 0, 0]);
    body.extend(u64::from(nfi).to_be_bytes());
    body.extend([0xff; 8]);
    [&[4, 14][..], &(body.len() as u16 + 8).to_be_bytes(), &[0, 0, 0, 1], &body].concat()
}

#[test]
fn a_switch_relays_flows_to_another_one() -> Result<()> {
    let homes = [Home::new(), Home::new()];
    let own = [2, 0, 0, 0, 1, 1];
    let config = |relay: bool| {
        let wan = RawPort { aggregate: true.into(), ..vhost_user("wan") };
        let rules = RawAggregation {
            next_hops: vec![next_hop(7, "02:00:00:00:01:02", "192.0.2.2").into()],
            ..aggregation("02:00:00:00:01:01", "192.0.2.1")
        };
        let channel = RawOpenflow { relay: relay.into(), ..channel() };
        (wan, vhost_user("nf"), patch("wan", "nf"), rules, channel, sleeper())
    };
    let far = homes[1].start(config(true));
    let uplink = towards("wan", &homes[1], "wan");
    let near = (vhost_user("a"), uplink, by_flows(bridge("br0", ["a", "wan"])), channel(), sleeper());
    let near = homes[0].start(near);
    let mut nf = guests(&homes[1], &far, ["nf"]);
    near.wait_up(&["wan"]);
    let table = || -> Vec<(u32, u16)> {
        let aggregation: Aggregation =
            Client::connect(homes[1].path("control")).unwrap().call(&request::Aggregation {}).unwrap();
        aggregation.table.iter().map(|flow| (flow.sc, flow.nfi)).collect()
    };
    let relay = |to: [u8; 6], message: &[u8]| {
        let frame = [&to[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb6], message, &[0; 20]].concat();
        let packet = frames::hex(&frame);
        of(&homes[0], "packet-out", &[&format!("in_port=controller packet={packet} actions=output:2")]);
        frame
    };
    relay(own, &flow_mod(100, 7));
    relay(own, &flow_mod(101, 7));
    wait_for("the flows", || (table() == [(100, 7), (101, 7)]).then_some(()));
    // Messages that are no flow of that table change nothing, and those for another switch are forwarded.
    let mut wrong = flow_mod(102, 7);
    wrong[24] = 0;
    relay(own, &wrong);
    relay(own, &[4, 14, 0, 200]);
    let other = relay([2, 0, 0, 0, 1, 3], &flow_mod(103, 7));
    expect(&mut nf, &[&[other]]);
    assert_eq!(far.stats().aggregation.unwrap().relayed, 4);
    assert!(shown(&homes[1]).flows.len() == 2 && table().len() == 2);
    // Packets from a network function are never flows, even if they claim to be.
    let fake = [&own[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb6], &flow_mod(104, 7), &[0; 20]].concat();
    send(&mut nf[0], &[fake]);
    wait_for("the frame to pass", || (near.port("wan").rx() > 0).then_some(()));
    // Without `relay` it is an ordinary packet.
    homes[1].configure(config(false));
    assert!(far.reload().needs_restart.is_empty());
    let frame = relay(own, &flow_mod(105, 7));
    expect(&mut nf, &[&[frame]]);
    send(&mut nf[0], &[Packet::udp(1, 2, 1).bytes()]);
    assert!(table().len() == 2 && far.drops().is_empty(), "{:?} {:?}", table(), far.drops());
    near.stop();
    far.stop();
    Ok(())
}
