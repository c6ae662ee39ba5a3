//! Packet aggregation in network functions: their switch passes aggregates on unchanged.

use std::process::Command;

use e2e::cable::{cable, lay_cable};
use e2e::stream::{
    aggregating, aggregation, behind, carried, exchange, joined_both_ways, network, uplink, with_hops, within_mtu,
};
use e2e::virtio::Options;
use e2e::{Home, SOON};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;

const PACKETS: u64 = 4000;

/// nf-forward between two ports of a switch.
struct Function(Daemon);

impl Function {
    fn start(home: &Home, inside: Option<&Namespace>, rules: RawAggregation, options: &[&str]) -> Function {
        let file = home.path("nf.toml");
        std::fs::write(&file, rules.text()).unwrap();
        let program = e2e::function("nf-forward");
        let mut command = match inside {
            Some(namespace) => namespace.command(program.to_str().expect("a path in UTF-8")),
            None => Command::new(program),
        };
        let sockets = [home.socket("left"), home.socket("right")];
        command.args(sockets).arg("--aggregation").arg(file).args(options);
        let mut daemon = Daemon::spawn("nf-forward", command).unwrap();
        daemon.wait_for_line("the network function to run", SOON, |line| line.starts_with("memory: ")).unwrap();
        Function(daemon)
    }

    /// Stops it, and checks that each of its ports counted all `packets`, with none dropped.
    fn stop(mut self, packets: u64) {
        let status = self.0.terminate(SOON).unwrap();
        let said = self.0.log().tail(20);
        assert!(status.success(), "{status}: {said}");
        let all = format!("{packets} received, {packets} sent, 0 dropped as the queue was full, 0 malformed");
        assert_eq!(said.matches(&all).count(), 2, "{said}");
        assert!(!said.contains("dropped, "), "{said}");
    }
}

/// Returns the option of a function that reads aggregates itself.
fn native_if(native: bool) -> &'static [&'static str] {
    if native { &["--native"] } else { &[] }
}

/// Puts the first of the two next hops of `rules` behind port `left`, and the second behind `right`.
fn between(rules: RawAggregation) -> RawAggregation {
    with_hops(rules, |place, hop| RawNextHop { port: ["left", "right"][place].into(), ..hop })
}

/// Runs a switch that aggregates, a cable, and a switch that doesn't, with a network function that does.
fn on_a_cable(options: &[&str]) -> Result<()> {
    let (namespaces, homes) = (cable()?, [Home::new(), Home::new()]);
    let vids = [100, 101, 300];
    let flows = |to| [(100, to), (101, to)];
    let wan = |node: usize| af_packet("wan", &format!("up{node}"));
    let near = (aggregating(wan(0)), vhost_user("nf"), patch("nf", "wan"), aggregation(0, &flows(1)), sleeper());
    let patches = [patch("wan", "left"), patch("right", "guest")];
    let far = (wan(1), ["left", "right", "guest"].map(vhost_user), patches, sleeper());
    let first = homes[0].start_inside(&namespaces[0], near);
    let second = homes[1].start_inside(&namespaces[1], far);
    let rules = behind(aggregation(1, &flows(0)), "left");
    let function = Function::start(&homes[1], Some(&namespaces[1]), rules, options);
    second.wait_up(&["left", "right"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
    first.wait_up(&["wan", "nf"]);
    second.wait_up(&["wan", "left", "right", "guest"]);
    exchange(&mut ends, PACKETS, &vids)?;
    let [received, sent] = first.sides("wan");
    joined_both_ways(&received, &sent, PACKETS);
    // The switch next to the network function counts frames, regardless of their contents.
    second.counted("wan", sent.frames, received.frames);
    second.counted("guest", PACKETS, PACKETS);
    first.none_dropped();
    second.none_dropped();
    function.stop(PACKETS);
    first.stop();
    second.stop();
    Ok(())
}

#[test]
fn a_network_function_on_a_cable_splits_and_joins() -> Result<()> {
    on_a_cable(&[])
}

#[test]
fn a_network_function_with_several_workers_on_a_cable() -> Result<()> {
    on_a_cable(&["--workers", "3", "--patience", "600"])
}

#[test]
fn a_native_network_function_on_a_cable() -> Result<()> {
    on_a_cable(&["--native"])
}

/// Puts the function behind a mapping: a port that does not aggregate receives whole aggregates into the function's buffers,
/// and sends the packets that the function joins from there.
fn behind_a_mapping(native: bool) -> Result<()> {
    let homes = [Home::new(), Home::new()];
    let vids = [100, 101, 300];
    let flows = |to| [(100, to), (101, to)];
    let near = (network("wan"), vhost_user("nf"), patch("nf", "wan"), aggregation(0, &flows(1)), sleeper());
    let first = homes[0].start(near);
    let wan = virtio_user("wan", &homes[0].socket("wan"));
    let joints = (pass_through("wan", "left"), patch("right", "guest"));
    // Lends before the first frame arrives.
    let second = homes[1].start((wan, ["left", "right", "guest"].map(vhost_user), joints, e2e::poller()));
    let rules = behind(aggregation(1, &flows(0)), "left");
    let function = Function::start(&homes[1], None, rules, native_if(native));
    second.wait_up(&["wan", "left", "right"]);
    second.wait_mapped();
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
    first.wait_up(&["wan", "nf"]);
    second.wait_up(&["guest"]);
    exchange(&mut ends, PACKETS, &vids)?;
    let [received, sent] = first.sides("wan");
    joined_both_ways(&received, &sent, PACKETS);
    // More frames came in place than were single packets: aggregates did, too.
    let mapping = second.mapping();
    assert_eq!(mapping.in_place + mapping.copied, sent.frames, "{mapping:?}");
    assert!(mapping.in_place > sent.frames - sent.aggregates, "{mapping:?} {sent:?}");
    assert_eq!((mapping.split, mapping.elsewhere), (0, 0), "{mapping:?}");
    assert_eq!(mapping.sent_in_place + mapping.sent_copied, received.frames, "{mapping:?}");
    assert!(mapping.sent_in_place > 0, "{mapping:?}");
    first.none_dropped();
    second.none_dropped();
    function.stop(PACKETS);
    first.stop();
    second.stop();
    Ok(())
}

#[test]
fn a_network_function_behind_a_mapping_gets_aggregates_in_place() -> Result<()> {
    behind_a_mapping(false)
}

#[test]
fn a_native_network_function_behind_a_mapping_gets_aggregates_in_place() -> Result<()> {
    behind_a_mapping(true)
}

/// Puts the function between bridges that carry two VLANs and no untagged frames: aggregates are tagged as well.
fn on_trunks(native: bool) -> Result<()> {
    let homes = [Home::new(), Home::new()];
    let vids = [100, 101];
    let tagged = |rules| with_hops(rules, |_, hop| RawNextHop { vlan: 101.into(), ..hop });
    let flows = |to| [(100, to), (101, to)];
    let trunk = |port| trunk(&[100, 101], port);
    let near = (network("wan"), vhost_user("nf"), patch("nf", "wan"), tagged(aggregation(0, &flows(1))), sleeper());
    let wan = virtio_user("wan", &homes[0].socket("wan"));
    let sides = ["left", "right", "guest"].map(|name| trunk(vhost_user(name)));
    let bridges = [bridge("west", ["wan", "left"]), bridge("east", ["right", "guest"])];
    let (first, second) = (homes[0].start(near), homes[1].start((trunk(wan), sides, bridges, sleeper())));
    let rules = behind(tagged(aggregation(1, &flows(0))), "left");
    let function = Function::start(&homes[1], None, rules, native_if(native));
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
    // A bridge drops frames to a port that is not up yet.
    first.wait_up(&["wan", "nf"]);
    second.wait_up(&["wan", "left", "right", "guest"]);
    exchange(&mut ends, PACKETS, &vids)?;
    let [received, sent] = first.sides("wan");
    joined_both_ways(&received, &sent, PACKETS);
    first.none_dropped();
    second.none_dropped();
    function.stop(PACKETS);
    first.stop();
    second.stop();
    Ok(())
}

#[test]
fn aggregates_with_a_tag_cross_bridges_that_want_one() -> Result<()> {
    on_trunks(false)?;
    on_trunks(true)
}

/// Puts the function between two switches that aggregate: VLAN 100 is joined on the way there, 200 on the way back, 300 never.
fn in_the_middle(native: bool, transport: Transport) -> Result<()> {
    let homes = [Home::new(), Home::new(), Home::new()];
    let rules = |node, flows: &[(u16, usize)]| carried(aggregation(node, flows), transport);
    let end = |wan, rules| (wan, vhost_user("nf"), patch("nf", "wan"), rules, sleeper());
    let west = virtio_user("west", &homes[0].socket("wan"));
    let patches = [patch("west", "left"), patch("right", "east")];
    let middle = (west, ["east", "left", "right"].map(vhost_user), patches, sleeper());
    let east = uplink("wan", &homes[1].socket("east"));
    let switches = [
        homes[0].start(end(network("wan"), rules(0, &[(100, 1)]))),
        homes[1].start(middle),
        homes[2].start(end(east, rules(2, &[(200, 1)]))),
    ];
    let rules = between(rules(1, &[(200, 0), (100, 2)]));
    let function = Function::start(&homes[1], None, rules, native_if(native));
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[2].socket("nf")).connect()?];
    switches[1].wait_up(&["west", "east", "left", "right"]);
    [&switches[0], &switches[2]].iter().for_each(|end| end.wait_up(&["wan", "nf"]));
    exchange(&mut ends, PACKETS, &[100, 200, 300])?;
    for switch in [&switches[0], &switches[2]] {
        let [received, sent] = switch.sides("wan");
        assert_eq!((received.packets, sent.packets), (PACKETS, PACKETS));
        assert!(received.aggregates > 0 && sent.aggregates > 0, "{received:?} {sent:?}");
        within_mtu(&received);
    }
    function.stop(PACKETS);
    for switch in switches {
        switch.none_dropped();
        switch.stop();
    }
    Ok(())
}

#[test]
fn a_network_function_between_two_switches() -> Result<()> {
    in_the_middle(false, Transport::Udp)
}

#[test]
fn a_native_network_function_between_two_switches() -> Result<()> {
    in_the_middle(true, Transport::Udp)?;
    in_the_middle(true, Transport::Vxlan)
}

/// Joins three switches in namespaces by cables. The first one aggregates; at the others are network functions that do, each
/// in its own placement. Sends mixes of sizes and VLANs: each VLAN is joined on its way east, west or nowhere, different ones
/// between different nodes.
fn chain_of_three(native: [bool; 2]) -> Result<()> {
    let (far, near) = (100..104, 200..204);
    let homes = [Home::new(), Home::new(), Home::new()];
    let namespaces = [e2e::cable::quiet_namespace()?, e2e::cable::quiet_namespace()?, e2e::cable::quiet_namespace()?];
    lay_cable([&namespaces[0], &namespaces[1]], ["up0", "up1"])?;
    lay_cable([&namespaces[1], &namespaces[2]], ["up2", "up3"])?;
    let to = |vids: &std::ops::Range<u16>, node: usize| vids.clone().map(move |vid| (vid, node));
    let eastwards: Vec<_> = to(&far, 1).collect();
    let near_end = aggregating(af_packet("wan", "up0"));
    let first = file((near_end, patch("nf", "wan"), vhost_user("nf"), aggregation(0, &eastwards)));
    let sides = (vhost_user("left"), vhost_user("right"), patch("west", "left"));
    let middle = file((af_packet("west", "up1"), af_packet("east", "up2"), &sides, patch("right", "east")));
    let last = file((af_packet("west", "up3"), sides, vhost_user("guest"), patch("right", "guest")));
    let start = |node: usize, parts| homes[node].start_inside(&namespaces[node], (parts, sleeper()));
    let switches = [start(0, first), start(1, middle), start(2, last)];
    // Half of the VLANs is joined eastwards, the other half westwards.
    let onwards: Vec<_> = to(&near, 0).chain(to(&far, 2)).collect();
    let westwards: Vec<_> = to(&near, 1).collect();
    let rules = [between(aggregation(1, &onwards)), behind(aggregation(2, &westwards), "left")];
    let functions = [1, 2].map(|node| {
        Function::start(&homes[node], Some(&namespaces[node]), rules[node - 1].clone(), native_if(native[node - 1]))
    });
    switches[1].wait_up(&["left", "right"]);
    switches[2].wait_up(&["left", "right"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[2].socket("guest")).connect()?];
    // 300 is in no flow.
    let mixes = [far.clone().chain(near.clone()).chain([300]).collect(), vec![100, 200], vec![103], vec![201, 300]];
    for vids in &mixes {
        exchange(&mut ends, PACKETS, vids)?;
    }
    let all = PACKETS * mixes.len() as u64;
    let [received, sent] = switches[0].sides("wan");
    joined_both_ways(&received, &sent, all);
    // The switches in between count frames. Fewer than packets: both functions joined, too.
    assert!(switches[1].port("east").tx() < all && switches[2].port("west").tx() < all);
    assert_eq!(switches[1].port("east").tx(), switches[2].port("west").rx());
    functions.into_iter().for_each(|function| function.stop(all));
    for switch in switches {
        // A cable drops frames longer than its MTU.
        switch.none_dropped();
        switch.stop();
    }
    Ok(())
}

#[test]
fn network_functions_between_three_switches() -> Result<()> {
    chain_of_three([false, false])
}

#[test]
fn native_network_functions_between_three_switches() -> Result<()> {
    chain_of_three([true, true])
}

#[test]
fn network_functions_of_both_placements_between_three_switches() -> Result<()> {
    chain_of_three([false, true])?;
    chain_of_three([true, false])
}
