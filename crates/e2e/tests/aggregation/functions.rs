//! Packet aggregation in network functions: the switch beside them passes aggregates on unchanged.

use std::path::Path;
use std::process::Command;

use e2e::cable::{cable, lay_cable};
use e2e::mapped::PASS_THROUGH;
use e2e::stream::{aggregation, exchange, joined_both_ways, network, patch, uplink, within_mtu};
use e2e::virtio::Options;
use e2e::{Home, SOON};
use lab::netns::Namespace;
use lab::process::Daemon;
use lab::{Result, cpu};

const PACKETS: u64 = 4000;

/// nf-forward between two ports of a switch.
struct Function(Daemon);

impl Function {
    fn start(home: &Home, inside: Option<&Namespace>, rules: &str, options: &[&str]) -> Function {
        let file = home.path("nf.toml");
        std::fs::write(&file, rules).unwrap();
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

/// Puts the next hop of `rules` behind `port`.
fn behind(rules: &str, port: &str) -> String {
    rules.replace("[[aggregation.next-hop]]\n", &format!("[[aggregation.next-hop]]\nport = \"{port}\"\n"))
}

/// Puts the first of the two next hops of `rules` behind port `left`, and the second behind `right`.
fn between(rules: &str) -> String {
    let [head, first, second] = rules.splitn(3, "[[aggregation.next-hop]]\n").collect::<Vec<_>>()[..] else {
        panic!("not two next hops: {rules}")
    };
    let hop = |port: &str, rest: &str| format!("[[aggregation.next-hop]]\nport = \"{port}\"\n{rest}");
    [head, &hop("left", first), &hop("right", second)].concat()
}

/// Runs a switch that aggregates, a cable, and a switch that doesn't, with a network function that does.
fn on_a_cable(options: &[&str]) -> Result<()> {
    let _alone = cpu::alone();
    let (namespaces, homes) = (cable()?, [Home::new(), Home::new()]);
    let vids = [100, 101, 300];
    let flows = |to| [(100, to), (101, to)];
    let wan = |node: usize| format!("[[port]]\nname = \"wan\"\ndriver = \"af_packet\"\ninterface = \"up{node}\"\n");
    let near = [wan(0) + "aggregate = true\n", e2e::port("nf"), patch("nf", "wan"), aggregation(0, &flows(1), "")];
    let far = [
        wan(1),
        e2e::port("left"),
        e2e::port("right"),
        e2e::port("guest"),
        patch("wan", "left"),
        patch("right", "guest"),
    ];
    let start =
        |node: usize, parts: &[String]| homes[node].start_inside(&namespaces[node], &(parts.concat() + e2e::SLEEPER));
    let (first, second) = (start(0, &near), start(1, &far));
    let rules = behind(&aggregation(1, &flows(0), ""), "left");
    let function = Function::start(&homes[1], Some(&namespaces[1]), &rules, options);
    second.wait_up(&["left", "right"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
    exchange(&mut ends, PACKETS, &vids)?;
    let [received, sent] = first.sides("wan");
    joined_both_ways(&received, &sent, PACKETS);
    // The switch beside the network function counts frames, regardless of their contents.
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
fn a_network_function_splits_and_joins_what_a_cable_brings() -> Result<()> {
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

/// Puts the function behind a mapping: a port that does not aggregate receives whole aggregates into the function's buffers, and
/// sends what the function joins from there.
fn behind_a_mapping(native: bool) -> Result<()> {
    let _alone = cpu::alone();
    let homes = [Home::new(), Home::new()];
    let vids = [100, 101, 300];
    let flows = |to| [(100, to), (101, to)];
    let near = [network("wan"), e2e::port("nf"), patch("nf", "wan"), aggregation(0, &flows(1), "")];
    let far = [
        uplink("wan", &homes[0].socket("wan")).replace("aggregate = true\n", ""),
        e2e::port("left"),
        e2e::port("right"),
        e2e::port("guest"),
        PASS_THROUGH.replace("\"fw\"", "\"left\""),
        patch("right", "guest"),
    ];
    let first = homes[0].start(&(near.concat() + e2e::SLEEPER));
    // Lends before the first frame arrives.
    let second = homes[1].start(&(far.concat() + &e2e::poller()));
    let rules = behind(&aggregation(1, &flows(0), ""), "left");
    let function = Function::start(&homes[1], None, &rules, native_if(native));
    second.wait_up(&["wan", "left", "right"]);
    second.wait_mapped();
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
    first.wait_up(&["wan", "nf"]);
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
    let _alone = cpu::alone();
    let homes = [Home::new(), Home::new()];
    let vids = [100, 101];
    let tagged = |rules: &str| rules.replace("[[aggregation.next-hop]]\n", "[[aggregation.next-hop]]\nvlan = 101\n");
    let flows = |to| [(100, to), (101, to)];
    let trunk = |port: String| port + "trunk = [100, 101]\n";
    let near = [network("wan"), e2e::port("nf"), patch("nf", "wan"), tagged(&aggregation(0, &flows(1), ""))];
    let wan = uplink("wan", &homes[0].socket("wan")).replace("aggregate = true\n", "");
    let sides = ["left", "right", "guest"].map(|name| trunk(e2e::port(name))).concat();
    let bridges = "[[bridge]]\nname = \"west\"\nports = [\"wan\", \"left\"]\n\
                   [[bridge]]\nname = \"east\"\nports = [\"right\", \"guest\"]\n";
    let far = [trunk(wan), sides, bridges.into()];
    let start = |home: &Home, parts: &[String]| home.start(&(parts.concat() + e2e::SLEEPER));
    let (first, second) = (start(&homes[0], &near), start(&homes[1], &far));
    let rules = behind(&tagged(&aggregation(1, &flows(0), "")), "left");
    let function = Function::start(&homes[1], None, &rules, native_if(native));
    second.wait_up(&["wan", "left", "right"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[1].socket("guest")).connect()?];
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
fn in_the_middle(native: bool, more: &str) -> Result<()> {
    let _alone = cpu::alone();
    let homes = [Home::new(), Home::new(), Home::new()];
    let plain_uplink = |name: &str, socket: &Path| uplink(name, socket).replace("aggregate = true\n", "");
    let first = [network("wan"), e2e::port("nf"), patch("nf", "wan"), aggregation(0, &[(100, 1)], more)];
    let west = plain_uplink("west", &homes[0].socket("wan"));
    let middle =
        [west, e2e::port("east"), e2e::port("left"), e2e::port("right"), patch("west", "left"), patch("right", "east")];
    let east = uplink("wan", &homes[1].socket("east"));
    let last = [east, e2e::port("nf"), patch("nf", "wan"), aggregation(2, &[(200, 1)], more)];
    let start = |home: &Home, parts: &[String]| home.start(&(parts.concat() + e2e::SLEEPER));
    let switches = [start(&homes[0], &first), start(&homes[1], &middle), start(&homes[2], &last)];
    let rules = between(&aggregation(1, &[(200, 0), (100, 2)], more));
    let function = Function::start(&homes[1], None, &rules, native_if(native));
    switches[1].wait_up(&["west", "east", "left", "right"]);
    switches[2].wait_up(&["wan"]);
    let mut ends = [Options::new(homes[0].socket("nf")).connect()?, Options::new(homes[2].socket("nf")).connect()?];
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
    in_the_middle(false, "")
}

#[test]
fn a_native_network_function_between_two_switches() -> Result<()> {
    in_the_middle(true, "")?;
    in_the_middle(true, "transport = \"vxlan\"\nchecksum = \"computed\"")
}

/// Joins three switches in namespaces by cables. The first one aggregates; beside the others are network functions that do,
/// each in its own placement. Sends mixes of sizes and VLANs: each VLAN is joined on its way east, west or nowhere, different
/// ones between different nodes.
fn chain_of_three(native: [bool; 2]) -> Result<()> {
    let _alone = cpu::alone();
    let (far, near) = (100..104, 200..204);
    let homes = [Home::new(), Home::new(), Home::new()];
    let namespaces = [e2e::cable::quiet_namespace()?, e2e::cable::quiet_namespace()?, e2e::cable::quiet_namespace()?];
    lay_cable([&namespaces[0], &namespaces[1]], ["up0", "up1"])?;
    lay_cable([&namespaces[1], &namespaces[2]], ["up2", "up3"])?;
    let wan = |name: &str, interface: &str| {
        format!("[[port]]\nname = \"{name}\"\ndriver = \"af_packet\"\ninterface = \"{interface}\"\n")
    };
    let to = |vids: &std::ops::Range<u16>, node: usize| vids.clone().map(move |vid| (vid, node));
    let eastwards: Vec<_> = to(&far, 1).collect();
    let first =
        [wan("wan", "up0") + "aggregate = true\n", patch("nf", "wan"), e2e::port("nf"), aggregation(0, &eastwards, "")];
    let sides = [e2e::port("left"), e2e::port("right")].concat();
    let middle = [wan("west", "up1"), wan("east", "up2"), sides.clone(), patch("west", "left"), patch("right", "east")];
    let last = [wan("west", "up3"), sides, e2e::port("guest"), patch("west", "left"), patch("right", "guest")];
    let start =
        |node: usize, parts: &[String]| homes[node].start_inside(&namespaces[node], &(parts.concat() + e2e::SLEEPER));
    let switches = [start(0, &first), start(1, &middle), start(2, &last)];
    // Half of the VLANs is joined eastwards, the other half westwards.
    let onwards: Vec<_> = to(&near, 0).chain(to(&far, 2)).collect();
    let westwards: Vec<_> = to(&near, 1).collect();
    let rules = [between(&aggregation(1, &onwards, "")), behind(&aggregation(2, &westwards, ""), "left")];
    let functions = [1, 2].map(|node| {
        Function::start(&homes[node], Some(&namespaces[node]), &rules[node - 1], native_if(native[node - 1]))
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
