//! Controllers that receive packets and port changes, and controllers that the switch connects to.

use super::frames::{BROADCAST, Packet, hex};
use super::*;
use lab::Result;
use lab::millrace::config::{FailMode, RawOpenflow, bridge, by_flows, sleeper, vhost_user};
use lab::netns::Namespace;
use lab::process::Daemon;

/// Starts `ovs-ofctl monitor`, which prints the switch's asynchronous messages.
fn monitor(home: &Home) -> Daemon {
    let mut command = ofctl(home, "monitor", &["65535"]);
    // It needs its own socket for commands.
    command.env("OVS_RUNDIR", home.path("."));
    Daemon::spawn("monitor", command).unwrap()
}

#[test]
fn controllers_are_told_and_send() -> Result<()> {
    let home = Home::new();
    let config = |ports: &[&str]| (switched(ports), channel(), sleeper());
    let millrace = home.start(config(&["a", "b"]));
    let [mut a, b] = guests(&home, &millrace, ["a", "b"]);
    let mut ends = [b];
    let mut monitor = monitor(&home);
    of(&home, "add-flow", &["priority=0,cookie=0x77,actions=CONTROLLER:65535"]);
    of(&home, "add-flow", &["priority=5,cookie=0x55,udp,udp_dst=5,actions=CONTROLLER:65535,output:2"]);
    // The monitor is ready once it has received something.
    let said =
        |monitor: &mut Daemon, part: &str| monitor.wait_for_line(part, e2e::SOON, |line| line.contains(part)).unwrap();
    let miss = [Packet::udp(1, 2, 1).bytes()];
    wait_for("the monitor to be told", || {
        send(&mut a, &miss);
        std::thread::sleep(std::time::Duration::from_millis(50));
        monitor.log().find(0, |line| line.contains("(via no_match)")).map(drop)
    });
    let line = said(&mut monitor, "(via no_match)");
    assert!(line.contains("cookie=0x77") && line.contains(&format!("total_len={}", miss[0].len())), "{line}");
    assert!(line.contains("in_port=1") && line.contains("(unbuffered)"), "{line}");
    let hit = [Packet::udp(1, 2, 5).bytes()];
    send(&mut a, &hit);
    let line = said(&mut monitor, "(via action)");
    assert!(line.contains("cookie=0x55"), "{line}");
    expect(&mut ends, &[&hit]);

    // Packet-outs by actions, by the table, and to all ports.
    let packet = Packet { to: BROADCAST, ..Packet::udp(9, 1, 9) };
    let out = |in_port: &str, actions: &str| {
        let packet = hex(&packet.bytes());
        of(&home, "packet-out", &[&format!("in_port={in_port} packet={packet} actions={actions}")]);
    };
    out("controller", "set_field:02:00:00:00:00:33->eth_src,output:2");
    expect(&mut ends, &[&[Packet { from: frames::mac(0x33), ..packet.clone() }.bytes()]]);
    out("1", "FLOOD");
    expect(&mut ends, &[&[packet.bytes()]]);
    of(&home, "add-flow", &["priority=9,in_port=controller,actions=output:2"]);
    out("controller", "TABLE");
    expect(&mut ends, &[&[packet.bytes()]]);
    of(&home, "add-flow", &["priority=9,in_port=1,udp,udp_dst=9,actions=push_vlan:0x8100,output:2"]);
    out("1", "TABLE");
    expect(&mut ends, &[&[Packet { vlan: Some(0), ..packet.clone() }.bytes()]]);
    // No port has sent it.
    out("controller", "IN_PORT");
    // The worker takes the packet some time after the controller was answered.
    let dropped = || shown(&home).datapath.unwrap().packet_out_drops.get("unknown-port").copied();
    assert_eq!(wait_for("the packet to be dropped", dropped), 1);

    // Flows that expire.
    of(&home, "add-flow", &["send_flow_rem,cookie=0x99,hard_timeout=1,priority=8,dl_vlan=9,actions=drop"]);
    let line = said(&mut monitor, "FLOW_REMOVED");
    let line = if line.contains("reason=hard") { line } else { said(&mut monitor, "reason=hard") };
    assert!(line.contains("cookie:0x99"), "{line}");

    // Ports that go down and are added and removed.
    drop(ends);
    said(&mut monitor, "PORT_STATUS");
    said(&mut monitor, "MOD: 2(b)");
    home.configure(config(&["a", "b", "new"]));
    millrace.reload();
    said(&mut monitor, "ADD: 3(new)");
    home.configure(config(&["a", "new"]));
    millrace.reload();
    said(&mut monitor, "DEL: 2(b)");
    millrace.stop();
    Ok(())
}

/// Of the packets that go to controllers, a port can be forbidden to show those that no flow matches.
#[test]
fn a_port_may_be_forbidden_to_show_table_misses() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b"]), channel(), sleeper()));
    let [mut a, _b] = guests(&home, &millrace, ["a", "b"]);
    of(&home, "add-flow", &["priority=0,actions=CONTROLLER:65535"]);
    of(&home, "add-flow", &["priority=5,udp,udp_dst=5,actions=CONTROLLER:65535"]);
    let [miss, hit] = [1, 5].map(|port| Packet::udp(1, 2, port).bytes());
    // No controller is left once the switch has noticed that `ovs-ofctl` is gone.
    wait_for("packets that nobody wants", || {
        send(&mut a, &[miss.clone(), hit.clone()]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        (dropped(&millrace, "a", "unwanted") >= 2).then_some(())
    });
    let mut monitor = monitor(&home);
    wait_for("the monitor to be told", || {
        send(&mut a, std::slice::from_ref(&miss));
        std::thread::sleep(std::time::Duration::from_millis(50));
        monitor.log().find(0, |line| line.contains("(via no_match)")).map(drop)
    });
    of(&home, "mod-port", &["1", "no-packet-in"]);
    let (unwanted, told) = (dropped(&millrace, "a", "unwanted"), monitor.log().mark());
    send(&mut a, &[miss.clone(), hit]);
    monitor.wait_for_line_since(told, "the other packet", e2e::SOON, |line| line.contains("(via action)"))?;
    let forbidden = dropped(&millrace, "a", "no-packet-in");
    assert!(forbidden > 0);
    of(&home, "mod-port", &["1", "packet-in"]);
    let told = monitor.log().mark();
    send(&mut a, &[miss]);
    monitor.wait_for_line_since(told, "the packet", e2e::SOON, |line| line.contains("(via no_match)"))?;
    let counts = ["no-packet-in", "unwanted"].map(|reason| dropped(&millrace, "a", reason));
    assert_eq!(counts, [forbidden, unwanted]);
    millrace.stop();
    Ok(())
}

/// A controller asks for packets whose time to live is over, and gets these and no others.
#[test]
fn a_controller_may_ask_for_packets_whose_time_is_over() -> Result<()> {
    let (namespace, home) = (Namespace::create()?, Home::new());
    let controllers = ["tcp:127.0.0.1:6653".to_owned()].into_iter().collect();
    let openflow = RawOpenflow { controllers, ..failing(FailMode::Secure) };
    let millrace = home.start_inside(&namespace, (switched(&["a", "b"]), openflow, sleeper()));
    let [mut a, b] = guests(&home, &millrace, ["a", "b"]);
    let mut command = namespace.command("osken-manager");
    command.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6653"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/asking.py"));
    let mut controller = Daemon::spawn("osken-manager", command)?;
    let mut said = |what: &str| controller.wait_for_line(what, e2e::SOON, |line| line.contains(what)).map(drop);
    said("wanted are [4, 0]")?;
    let with_ttl = |ttl: u8| {
        let mut frame = Packet::udp(1, 2, 5).bytes();
        frame[22] = ttl;
        let checksum = packet::checksum::of(&[&frame[14..24], &frame[26..34]].concat());
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame
    };
    let miss = [&[0xff; 12][..], &[0x88, 0xb5], &[0; 46]].concat();
    send(&mut a, &[with_ttl(1), with_ttl(64), miss]);
    expect(&mut [b], &[&[with_ttl(63)]]);
    said(&format!("reason 2, cookie 7, port 1, ttl 1, {} bytes", with_ttl(1).len()))?;
    assert_eq!((dropped(&millrace, "a", "ttl"), dropped(&millrace, "a", "unwanted")), (1, 1));
    millrace.stop();
    Ok(())
}

/// A flow without packets expires; one with packets stays.
#[test]
fn idle_flows_end() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b"]), channel(), sleeper()));
    let [mut a, b] = guests(&home, &millrace, ["a", "b"]);
    let mut ends = [b];
    of(&home, "add-flow", &["idle_timeout=2,in_port=1,actions=output:2"]);
    of(&home, "add-flow", &["idle_timeout=2,in_port=2,actions=output:1"]);
    let burst = [Packet::udp(1, 2, 1).bytes()];
    // As long as the other flow exists, and once more.
    loop {
        let both = shown(&home).flows.len() == 2;
        send(&mut a, &burst);
        expect(&mut ends, &[&burst]);
        if !both {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(flow(&home, "in_port=1").idle_timeout, 2);
    wait_for("the flow to end", || shown(&home).flows.is_empty().then_some(()));
    millrace.stop();
    Ok(())
}

/// An os-ken application with two switches, which connect to it: it requests unmatched packets, and for each of them it sets
/// flows along the chain and sends the packet on.
#[test]
fn an_application_sets_a_chain_of_flows() -> Result<()> {
    let namespace = Namespace::create()?;
    let homes = [Home::new(), Home::new()];
    let openflow = |id: i64| {
        let controllers = ["tcp:127.0.0.1:6653".to_owned()].into_iter().collect();
        RawOpenflow { controllers, datapath_id: id.into(), ..failing(FailMode::Secure) }
    };
    let first = homes[0].start_inside(&namespace, (switched(&["a", "up"]), openflow(1), sleeper()));
    let uplink = towards("up", &homes[0], "up");
    let second = (vhost_user("b"), uplink, by_flows(bridge("br0", ["b", "up"])), openflow(2), sleeper());
    let mut second = homes[1].start_inside(&namespace, second);
    second.wait_said(0, "cannot connect");
    let mut ends = ["a", "b"].into_iter().zip(&homes).map(|(port, home)| Options::new(home.socket(port)).connect());
    let mut ends = [ends.next().unwrap()?, ends.next().unwrap()?];
    for switch in [&first, &second] {
        switch.wait_up(&["up"]);
    }

    let application = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/chain.py");
    let start = || {
        let mut command = namespace.command("osken-manager");
        command.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6653", application]);
        Daemon::spawn("osken-manager", command)
    };
    let mut controller = start().expect("osken-manager runs; it is in the Debian package python3-os-ken");
    let both = |controller: &mut Daemon| {
        for switch in 1..=2 {
            let line = format!("switch {switch} is there");
            controller.wait_for_line(&line, e2e::SOON, |said| said.contains(&line)).unwrap();
        }
    };
    both(&mut controller);
    let there = [Packet::udp(1, 2, 7).bytes()];
    send(&mut ends[0], &there);
    // The first packet goes through the controller, the others use the flows that it set.
    expect(&mut ends, &[&[], &there]);
    let laid = |home: &Home| shown(home).flows.iter().filter(|flow| flow.priority == 10).count();
    wait_for("flows in both switches", || homes.iter().all(|home| laid(home) == 2).then_some(()));
    let packet_ins = || shown(&homes[0]).datapath.unwrap().packet_ins;
    let before = packet_ins();
    let more = [there[0].clone(), there[0].clone()];
    send(&mut ends[0], &more);
    expect(&mut ends, &[&[], &more]);
    let back = [Packet::udp(2, 1, 7).bytes()];
    send(&mut ends[1], &back);
    expect(&mut ends, &[&back, &[]]);
    assert_eq!(packet_ins(), before);

    // Flows stay without a controller; a new one gets the switches again.
    controller.kill()?;
    second.wait_said(0, "disconnected");
    send(&mut ends[0], &more);
    expect(&mut ends, &[&[], &more]);
    let mut controller = start()?;
    both(&mut controller);
    first.stop();
    second.stop();
    Ok(())
}
