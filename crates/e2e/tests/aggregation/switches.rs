//! Packet aggregation along chains of switches: one switch joins packets and the next splits them, invisibly to the guests at
//! either end.

use std::collections::BTreeMap;
use std::process::Command;

use e2e::aggregate::{by_hand, malformed};
use e2e::cable::cable;
use e2e::mapped::one_wire;
use e2e::stream::{
    aggregating, aggregation, carried, exchange, exchange_through, network, packet, uplink, with_hops, within_mtu,
};
use e2e::virtio::Options;
use e2e::wire::Wire;
use e2e::{Home, Millrace, wait_for};
use engine::stats::AggregationSide;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use rustix::process::Signal;

/// Returns the aggregates of one way of a port, and the packets in them.
fn joined(side: &AggregationSide) -> (u64, u64) {
    let alone = side.frames - side.aggregates;
    (side.aggregates, side.packets - alone)
}

/// Runs two switches with a cable between them and a guest at either end.
fn pair(transport: Transport) -> Result<()> {
    let vids: Vec<u16> = (100..108).collect();
    // VLANs from 104 on are in no flow.
    let flows = |to| (100..104).map(|vid| (vid, to)).collect::<Vec<_>>();
    let homes = [Home::new(), Home::new()];
    let config = |wan, node: usize| {
        let rules = carried(aggregation(node, &flows(1 - node)), transport);
        (wan, vhost_user("nf"), patch("nf", "wan"), rules, sleeper())
    };
    let first = homes[0].start(config(network("wan"), 0));
    let second = homes[1].start(config(uplink("wan", &homes[0].socket("wan")), 1));
    for switch in [&first, &second] {
        switch.wait_up(&["wan"]);
    }
    let mut ends =
        [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("nf")).packed().connect()?];
    exchange(&mut ends, 20_000, &vids)?;
    for (switch, other) in [(&first, &second), (&second, &first)] {
        switch.none_dropped();
        let ([received, sent], [_, theirs]) = (switch.sides("wan"), other.sides("wan"));
        assert_eq!((sent.packets, received.packets), (20_000, 20_000));
        // One switch's sent frames are the other's received frames.
        assert_eq!(
            (theirs.frames, theirs.aggregates, theirs.sizes, theirs.held),
            (received.frames, received.aggregates, received.sizes, received.held)
        );
        within_mtu(&sent);
        assert!(sent.frames < sent.packets, "{sent:?}");
        let stats = switch.aggregation();
        assert_eq!((stats.flows, stats.next_hops.len()), (4, 1));
        let hop = &stats.next_hops[0];
        assert_eq!((hop.aggregates, hop.packets), joined(&sent), "the only next hop");
        // Its counters are of packets.
        switch.counted("wan", 20_000, 20_000);
    }
    first.stop();
    second.stop();
    Ok(())
}

#[test]
fn packets_are_joined_and_split_over_udp() -> Result<()> {
    pair(Transport::Udp)
}

#[test]
fn packets_are_joined_and_split_inside_vxlan() -> Result<()> {
    pair(Transport::Vxlan)
}

/// Three switches between two guests; the middle one has a bridge.
#[test]
fn packets_pass_a_chain_of_three() -> Result<()> {
    let vids = [100, 200];
    let homes = [Home::new(), Home::new(), Home::new()];
    let flows = |to: usize| [(100, to), (200, to)];
    // In the middle a packet arrives from either side and leaves on the other: each port has its own next hop.
    let hops = with_hops(aggregation(1, &[(100, 2), (200, 0)]), |place, hop| RawNextHop {
        port: ["west", "east"][place].into(),
        ..hop
    });
    let west = uplink("west", &homes[0].socket("wan"));
    let middle = (west, network("east"), bridge("br0", ["west", "east"]), hops, sleeper());
    let east = uplink("wan", &homes[1].socket("east"));
    let end = |wan, node: usize| (wan, vhost_user("nf"), patch("nf", "wan"), aggregation(node, &flows(1)), sleeper());
    let switches = [homes[0].start(end(network("wan"), 0)), homes[1].start(middle), homes[2].start(end(east, 2))];
    switches[1].wait_up(&["west", "east"]);
    switches[2].wait_up(&["wan"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[2].socket("nf")).connect()?];
    exchange(&mut ends, 10_000, &vids)?;
    for switch in &switches {
        switch.none_dropped();
        for port in switch.aggregation().ports {
            within_mtu(&port.sent);
            assert_eq!((port.sent.packets, port.received.packets), (10_000, 10_000));
        }
    }
    // VLAN 100 is joined eastwards only, and 200 westwards only.
    for hop in switches[1].aggregation().next_hops {
        let [_, sent] = switches[1].sides(hop.port.as_deref().unwrap());
        assert!(hop.aggregates > 0, "both directions are looked up: {hop:?}");
        assert_eq!((hop.aggregates, hop.packets), joined(&sent), "the only next hop by its port");
    }
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}

#[test]
fn malformed_aggregates_are_dropped_with_a_reason_and_disturb_no_traffic() -> Result<()> {
    let home = Home::new();
    let rules = RawAggregation { unknown_chains: UnknownChains::Drop.into(), ..aggregation(0, &[(100, 1)]) };
    let millrace = home.start((network("wan"), vhost_user("nf"), patch("nf", "wan"), rules, sleeper()));
    let [mut wan, mut nf] = ["wan", "nf"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    millrace.wait_up(&["wan", "nf"]);
    let packets: Vec<Vec<u8>> =
        (0..12).map(|number| packet(0, number, &[100])).filter(|bytes| bytes.len() < 200).collect();
    let good = by_hand(&packets);
    let bad = malformed(&good);
    let mut wanted = BTreeMap::new();
    let mut arrived = 0;
    for round in 0..50 {
        let (reason, bytes) = &bad[round % bad.len()];
        *wanted.entry((*reason).to_owned()).or_insert(0) += 1;
        wan.reap()?;
        for frame in [&good, bytes, &packets[0], &good] {
            assert!(wan.send(&[frame], 1)?);
        }
        wan.flush();
        let each: Vec<Vec<u8>> = [&packets[..], &packets[..1], &packets[..]].concat();
        let mut next = each.iter();
        wait_for("the good packets", || {
            nf.receive(64, |bytes| {
                assert!(next.next().is_some_and(|packet| packet == bytes));
                arrived += 1;
                Ok(())
            })
            .unwrap();
            next.as_slice().is_empty().then_some(())
        });
    }
    // Also a packet of an unknown chain, in the other direction.
    nf.send(&[&packet(1, 0, &[999])], 1)?;
    nf.flush();
    wait_for("the packet to be dropped", || {
        (millrace.port("wan").drops().get("unknown-chain") == Some(&1)).then_some(())
    });
    wanted.insert("unknown-chain".to_owned(), 1);
    assert_eq!(*millrace.port("wan").drops(), wanted);
    assert_eq!(millrace.port("nf").dropped(), 0);
    assert_eq!(arrived, 50 * (2 * packets.len() + 1));
    assert!(wan.is_connected() && nf.is_connected());
    millrace.stop();
    Ok(())
}

/// Flows and next hops change while packets are in flight.
#[test]
fn a_reload_changes_the_table_and_loses_nothing() -> Result<()> {
    let homes = [Home::new(), Home::new()];
    let config = |wan, node: usize, flows: &[(u16, usize)]| {
        (wan, vhost_user("nf"), patch("nf", "wan"), aggregation(node, flows), sleeper())
    };
    let near = |flows: &[(u16, usize)]| config(network("wan"), 0, flows);
    let first = homes[0].start(near(&[]));
    let second = homes[1].start(config(uplink("wan", &homes[0].socket("wan")), 1, &[(100, 0)]));
    for switch in [&first, &second] {
        switch.wait_up(&["wan"]);
    }
    let mut ends = homes.each_ref().map(|home| Options::new(home.socket("nf")).connect().unwrap());
    exchange(&mut ends, 2000, &[100])?;
    assert_eq!(first.sides("wan")[1].aggregates, 0);
    homes[0].configure(near(&[(100, 1)]));
    let report = first.reload();
    assert!(report.to_string().starts_with("changed aggregation (next hops, flows); kept "), "{report}");
    exchange(&mut ends, 2000, &[100])?;
    let joined = first.sides("wan")[1].aggregates;
    assert!(joined > 0);
    homes[0].configure(near(&[]));
    first.reload();
    exchange(&mut ends, 2000, &[100])?;
    assert_eq!(first.sides("wan")[1].aggregates, joined);
    first.none_dropped();
    second.none_dropped();
    first.stop();
    second.stop();
    Ok(())
}

/// Uses kernel interfaces, which drop frames longer than the MTU, and bridges that add and remove tags.
#[test]
fn packets_are_joined_on_a_cable_between_kernels() -> Result<()> {
    let (namespaces, homes) = (cable()?, [Home::new(), Home::new()]);
    let bridge = bridge("br0", ["nf", "wan"]);
    let start = |node: usize| {
        let wan = trunk(&[100, 101], aggregating(af_packet("wan", &format!("up{node}"))));
        let flows = aggregation(node, &[(100, 1 - node), (101, 1 - node)]);
        homes[node].start_inside(&namespaces[node], (trunk_of_all(vhost_user("nf")), wan, &bridge, flows, sleeper()))
    };
    let switches = [start(0), start(1)];
    let mut ends = homes.each_ref().map(|home| Options::new(home.socket("nf")).connect().unwrap());
    exchange(&mut ends, 10_000, &[100, 101])?;
    for switch in switches {
        switch.none_dropped();
        let [received, sent] = switch.sides("wan");
        assert_eq!((received.packets, sent.packets), (10_000, 10_000));
        assert!(sent.aggregates > 0 && received.aggregates > 0, "{sent:?} {received:?}");
        within_mtu(&sent);
        switch.stop();
    }
    Ok(())
}

/// Packets sent by several guests in one round leave together; those of a single guest leave unchanged.
#[test]
fn packets_of_several_guests_are_joined_in_a_round() -> Result<()> {
    let home = Home::new();
    let names = ["n0", "n1", "n2", "n3"];
    let ports = names.map(|name| trunk_of_all(vhost_user(name)));
    let wan = trunk(&[100], aggregating(sink("wan")));
    let bridge = bridge("br0", ["n0", "n1", "n2", "n3", "wan"]);
    let mut switch = home.start((ports, wan, bridge, aggregation(0, &[(100, 1)]), sleeper()));
    let mut guests = names.map(|name| Options::new(home.socket(name)).connect().unwrap());
    switch.wait_up(&names);
    // So short that those of three guests fill less than half a frame, and are held for those of the fourth.
    let packets: Vec<_> = (0..).map(|number| packet(0, number, &[100])).filter(|p| p.len() < 70).take(12).collect();
    let frames_of = |switch: &Millrace, packets: u64| {
        wait_for("the packets to leave", || {
            let [_, sent] = switch.sides("wan");
            (sent.packets == packets).then_some(sent.frames)
        })
    };
    guests[0].send(&[&packets[0]], 1)?;
    guests[0].flush();
    assert_eq!(frames_of(&switch, 1), 1);
    // Stopped while asleep, the worker finds everything in one round; but it may be stopped just before.
    let (mut frames, mut sent) = (1, 1);
    let joined = (0..20).any(|_| {
        switch.daemon.signal(Signal::STOP).unwrap();
        for (guest, packets) in guests.iter_mut().zip(packets.chunks(3)) {
            guest.reap().unwrap();
            packets.iter().for_each(|packet| assert!(guest.send(&[packet], 1).unwrap()));
            guest.flush();
        }
        switch.daemon.signal(Signal::CONT).unwrap();
        sent += packets.len() as u64;
        let before = std::mem::replace(&mut frames, frames_of(&switch, sent));
        frames - before == 1
    });
    assert!(joined, "{:?}", switch.sides("wan"));
    switch.stop();
    Ok(())
}

/// Runs a switch whose port `wan` aggregates and is mapped to a guest, and the switch before it, which has the other of these
/// two ports.
fn mapped(
    homes: &[Home; 2],
    [near, far]: [RawPort; 2],
    namespaces: Option<&[Namespace; 2]>,
    guest: fn(Options) -> Options,
) -> Result<()> {
    let flows = |node: usize| aggregation(node, &[(100, 1 - node)]);
    let near = file((near, vhost_user("nf"), patch("nf", "wan"), flows(0), sleeper()));
    let far = file((far, vhost_user("nf"), pass_through("wan", "nf"), flows(1), e2e::poller()));
    let start = |node: usize, config| match namespaces {
        Some(namespaces) => homes[node].start_inside(&namespaces[node], config),
        None => homes[node].start(config),
    };
    let switches = [start(0, near), start(1, far)];
    let mut ends =
        [Options::new(homes[0].socket("nf")).connect()?, guest(Options::new(homes[1].socket("nf"))).connect()?];
    wait_for("both ends of the mapping", || switches[1].mapping().zero_copy.then_some(()));
    // The guest's memory was shared with the other switch, which may have restarted its queues for that.
    for switch in &switches {
        switch.wait_up(&["wan", "nf"]);
    }
    // The other switch posts buffers in a round; until then, frames to it are dropped.
    let idle = || switches[1].stats().workers[0].idle_cycles;
    let before = idle();
    wait_for("a round of the switch with the mapping", || (idle() > before).then_some(()));
    // Packets of VLAN 100 come in aggregates, those of 200 alone. A port that splits may offer no more than two bursts of buffers:
    // one for packets in flight, and one for packets that were delivered and whose buffers are not offered again yet.
    for vids in [&[200][..], &[100, 200], &[100]] {
        exchange_through(&mut ends, 10_000, vids, 32, |_, _| {})?;
    }
    let mapping = switches[1].mapping();
    assert!(mapping.sent_in_place > 0 && mapping.sent_copied > 0, "{mapping:?}");
    let [received, sent] = switches[1].sides("wan");
    assert_eq!((received.packets, sent.packets), (30_000, 30_000));
    assert!(received.aggregates > 0 && sent.aggregates > 0, "{received:?} {sent:?}");
    // Every frame came in a buffer of the guest or of the switch. Of those in a buffer of the guest, all stayed there but
    // the aggregates.
    assert_eq!(mapping.in_place + mapping.copied, received.frames, "{mapping:?}");
    assert!(mapping.in_place > mapping.split && mapping.split > 0 && mapping.elsewhere == 0, "{mapping:?}");
    assert!(mapping.split <= received.aggregates, "{mapping:?} {received:?}");
    for switch in switches {
        switch.none_dropped();
        switch.stop();
    }
    Ok(())
}

/// A mapped guest's packets are sent in place or joined. Packets for it stay in the buffer in which they came, or are copied
/// once, out of aggregates.
#[test]
fn a_mapped_port_aggregates() -> Result<()> {
    let guests: [fn(Options) -> Options; 2] = [|guest| guest, Options::packed];
    for guest in guests {
        let homes = [Home::new(), Home::new()];
        let wans = [network("wan"), uplink("wan", &homes[0].socket("wan"))];
        mapped(&homes, wans, None, guest)?;
    }
    Ok(())
}

#[test]
fn a_mapped_port_on_a_cable_aggregates() -> Result<()> {
    let wans = [af_packet("wan", "up0"), af_xdp("wan", "up1")].map(aggregating);
    let homes = [Home::new(), Home::new()];
    mapped(&homes, wans, Some(&cable()?), |guest| guest)
}

/// A guest that has fewer buffers than an aggregate has packets still gets them, and its mapping copies.
#[test]
fn a_mapped_port_aggregates_for_a_guest_with_few_buffers() -> Result<()> {
    let (home, wire) = (Home::new(), Wire::start());
    let wan = aggregating(wire.port(false));
    let rules = aggregation(0, &[(100, 1)]);
    let millrace = home.start((wan, vhost_user("fw"), one_wire(), rules, e2e::poller()));
    let mut guest = Options::new(home.socket("fw")).queue_size(16).connect()?;
    let mut sender = wire.guest("far")?;
    wait_for("both ends of the mapping", || millrace.mapping().zero_copy.then_some(()));
    millrace.wait_up(&["wan", "fw"]);
    let packets: Vec<_> =
        (0..).map(|number| packet(0, number, &[100])).filter(|packet| packet.len() < 70).take(12).collect();
    let aggregate = by_hand(&packets);
    for round in 0..200 {
        sender.reap()?;
        let sent = if round % 2 == 0 { &aggregate } else { &packets[0] };
        assert!(sender.send(&[sent], 1)?);
        sender.flush();
        let mut due = if round % 2 == 0 { packets.iter() } else { packets[..1].iter() };
        wait_for("its packets", || {
            guest
                .receive(64, |bytes| {
                    assert!(due.next().is_some_and(|packet| packet == bytes));
                    Ok(())
                })
                .unwrap();
            due.as_slice().is_empty().then_some(())
        });
    }
    let mapping = millrace.mapping();
    assert_eq!((mapping.in_place, mapping.copied), (0, 200), "{mapping:?}");
    millrace.none_dropped();
    millrace.stop();
    Ok(())
}

/// A real controller sets the table of a confined switch, and overrides the configuration.
#[test]
fn a_controller_sets_next_hops() -> Result<()> {
    let homes = [Home::new(), Home::new()];
    let config = |wan, node: usize, flows: &[(u16, usize)]| {
        (wan, vhost_user("nf"), patch("nf", "wan"), aggregation(node, flows), sleeper())
    };
    let first = homes[0].start((config(network("wan"), 0, &[(200, 1)]), listen("unix:of.sock")));
    let second = homes[1].start(config(uplink("wan", &homes[0].socket("wan")), 1, &[(100, 0)]));
    for switch in [&first, &second] {
        switch.wait_up(&["wan"]);
    }
    let target = format!("unix:{}", homes[0].socket("of").display());
    let ofctl = |command: &str, arguments: &[&str]| {
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl.args(["-O", "OpenFlow13", "-t", "120", command, &target]).args(arguments);
        let output = ofctl.output().expect("ovs-ofctl runs; it is in the Debian package openvswitch-common");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{command} {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut ends = homes.each_ref().map(|home| Options::new(home.socket("nf")).connect().unwrap());
    let mut joined = |vid: u16| {
        let before = first.sides("wan")[1].aggregates;
        exchange(&mut ends, 1000, &[vid]).unwrap();
        first.sides("wan")[1].aggregates - before
    };
    assert!(joined(100) == 0 && joined(200) > 0);
    // The next hop is number 2 in the configuration, which is the other switch.
    ofctl("add-flow", &["table=16,dl_vlan=100,actions=write_metadata:2"]);
    ofctl("add-flow", &["table=16,dl_vlan=200,actions=write_metadata:0"]);
    assert!(joined(100) > 0 && joined(200) == 0);
    ofctl("del-flows", &["table=16"]);
    assert!(joined(100) == 0 && joined(200) > 0);
    let ports = ofctl("show", &[]);
    assert!(ports.contains("1(wan)") && ports.contains("2(nf)"), "{ports}");
    assert!(ofctl("dump-ports", &["1"]).contains("rx pkts=6000"), "{}", ofctl("dump-ports", &["1"]));
    first.none_dropped();
    second.none_dropped();
    first.stop();
    second.stop();
    Ok(())
}
