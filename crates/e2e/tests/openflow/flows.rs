//! Flows set by `ovs-ofctl`, and their effect on frames of guests.

use super::frames::{Addresses, BROADCAST, Packet, mac};
use super::*;
use lab::Result;
use lab::millrace::config::{FailMode, RawWorker, sleeper};

#[test]
fn frames_go_where_flows_say() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b", "c"]), channel(), sleeper()));
    let mut guests = guests(&home, &millrace, ["a", "b", "c"]);
    let udp = |port| Packet::udp(1, 2, port);
    // Without flows it is a bridge.
    let hello = [Packet { to: BROADCAST, ..udp(1) }.bytes()];
    send(&mut guests[0], &hello);
    expect(&mut guests, &[&[], &hello, &hello]);

    for flow in [
        "priority=50,in_port=1,dl_vlan=100,actions=output:2",
        "priority=50,udp,udp_dst=53,actions=output:3",
        "priority=50,udp,udp_dst=54,actions=output:2,output:3,IN_PORT",
        "priority=50,udp,udp_dst=55,actions=FLOOD",
        "priority=50,udp,udp_dst=56,actions=ALL",
        "priority=50,udp,udp_dst=57,actions=drop",
        "priority=50,tcp,nw_dst=192.0.2.0/24,tp_dst=80,actions=output:3",
        "priority=50,ipv6,ipv6_dst=2001:db8::/32,actions=output:2",
        "priority=40,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:07,actions=output:3",
    ] {
        of(&home, "add-flow", &[flow]);
    }
    let tagged = Packet { vlan: Some(100), ..udp(9) }.bytes();
    let other_tag = Packet { vlan: Some(101), ..udp(9) }.bytes();
    let tcp = |to: [u8; 4]| {
        let addresses = Addresses::V4([192, 0, 2, 1], to);
        Packet { protocol: 6, ports: [1, 80], addresses, ..udp(0) }.bytes()
    };
    let v6 = |first: u8| {
        let mut to = [0; 16];
        to[..4].copy_from_slice(&[0x20, first, 0x0d, 0xb8]);
        Packet { addresses: Addresses::V6([0xfd; 16], to), ..udp(9) }.bytes()
    };
    let seventh = Packet { to: mac(7), ..udp(9) }.bytes();
    let [dns, thrice, flood, all, gone] = [53, 54, 55, 56, 57].map(|port| udp(port).bytes());
    let burst = [
        tagged.clone(),
        other_tag,
        dns.clone(),
        thrice.clone(),
        flood.clone(),
        all.clone(),
        gone,
        tcp([192, 0, 2, 9]),
        tcp([192, 0, 3, 9]),
        v6(1),
        v6(2),
        seventh.clone(),
    ];
    send(&mut guests[0], &burst);
    // Of the frames to one port, those of a first output arrive before those of a second output.
    expect(
        &mut guests,
        &[
            std::slice::from_ref(&thrice),
            &[tagged, thrice.clone(), flood.clone(), all.clone(), v6(1)],
            &[dns, flood, all, tcp([192, 0, 2, 9]), seventh, thrice.clone()],
        ],
    );
    assert_eq!((dropped(&millrace, "a", "flow-drop"), dropped(&millrace, "a", "no-flow")), (1, 3));

    // Counters, as shown by the client and by us.
    let text = of(&home, "dump-flows", &["udp,udp_dst=54"]);
    let bytes = thrice.len();
    assert!(text.contains(&format!("n_packets=1, n_bytes={bytes}")), "{text}");
    let dropping = flow(&home, "eth_type=0x800,ip_proto=17,udp_dst=57");
    assert_eq!((dropping.actions.as_str(), dropping.packets), ("drop", 1));
    let datapath = shown(&home).datapath.expect("a bridge forwards by flows");
    // The broadcast frame at the beginning was looked up, too.
    assert_eq!((datapath.flows, datapath.lookups, datapath.matched), (9, 13, 9));
    assert!(of(&home, "dump-tables", &[]).contains("lookup=13, matched=9"));
    assert!(of(&home, "dump-aggregate", &[]).contains("packet_count=9"));

    // Modified and deleted flows.
    of(&home, "mod-flows", &["udp,udp_dst=53,actions=output:2"]);
    let burst = [udp(53).bytes()];
    send(&mut guests[0], &burst);
    expect(&mut guests, &[&[], &burst, &[]]);
    let text = of(&home, "dump-flows", &["udp,udp_dst=53"]);
    assert!(text.contains("n_packets=2,") && text.contains("actions=output:2"), "{text}");
    of(&home, "del-flows", &["udp"]);
    assert_eq!(shown(&home).datapath.unwrap().flows, 4);
    of(&home, "del-flows", &[]);
    send(&mut guests[0], &burst);
    expect(&mut guests, &[&[], &burst, &burst]);
    millrace.stop();
    Ok(())
}

#[test]
fn headers_are_rewritten_byte_by_byte() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b"]), channel(), sleeper()));
    let mut guests = guests(&home, &millrace, ["a", "b"]);
    for flow in [
        "priority=9,udp,udp_dst=1,actions=push_vlan:0x8100,set_field:4196->vlan_vid,set_field:5->vlan_pcp,output:2",
        "priority=10,dl_vlan=7,actions=pop_vlan,output:2",
        "priority=10,dl_vlan=8,actions=set_field:4105->vlan_vid,output:2",
        "priority=9,udp,udp_dst=2,actions=set_field:02:00:00:00:00:99->eth_dst,set_field:02:00:00:00:00:98->eth_src,\
         set_field:198.51.100.1->ip_src,set_field:198.51.100.2->ip_dst,set_field:7->udp_src,set_field:8->udp_dst,output:2",
        "priority=9,tcp,tcp_dst=3,actions=set_field:198.51.100.2->ip_dst,set_field:8->tcp_dst,output:2",
        "priority=9,tcp6,tcp_dst=4,actions=set_field:2001:db8::1->ipv6_src,set_field:9->tcp_src,output:2",
        "priority=9,udp,udp_dst=5,actions=output:2,set_field:198.51.100.2->ip_dst,output:2,IN_PORT",
    ] {
        of(&home, "add-flow", &[flow]);
    }
    let plain = Packet::udp(1, 2, 1);
    let long = Packet { payload: (0..1400u32).map(|n| n as u8).collect(), ..plain.clone() };
    let with_vlan = |vid| Packet { vlan: Some(vid), ..plain.clone() };
    let tcp = Packet { protocol: 6, ports: [1, 3], ..long.clone() };
    let six = Packet { addresses: Addresses::V6([0xfd; 16], [0xfe; 16]), ports: [1, 4], ..tcp.clone() };
    let twice = Packet::udp(1, 2, 5);
    let nat = Packet::udp(1, 2, 2);
    let burst = [&plain, &long, &with_vlan(7), &with_vlan(8), &nat, &tcp, &six, &twice].map(Packet::bytes);
    send(&mut guests[0], &burst);
    let tagged = |packet: &Packet| Packet { vlan: Some(5 << 13 | 100), ..packet.clone() };
    let to = [198, 51, 100, 2];
    let from = Addresses::V4([192, 0, 2, 1], to);
    let natted = Packet {
        to: mac(0x99),
        from: mac(0x98),
        addresses: Addresses::V4([198, 51, 100, 1], to),
        ports: [7, 8],
        ..nat.clone()
    };
    let mut source = [0; 16];
    (source[..4]).copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    source[15] = 1;
    let tcp_out = Packet { addresses: from.clone(), ports: [1, 8], ..tcp.clone() };
    let six_out = Packet { addresses: Addresses::V6(source, [0xfe; 16]), ports: [9, 4], ..six.clone() };
    let changed = Packet { addresses: from, ..twice.clone() };
    let wanted =
        [&tagged(&plain), &tagged(&long), &plain, &with_vlan(9), &natted, &tcp_out, &six_out, &twice, &changed]
            .map(Packet::bytes);
    expect(&mut guests, &[&[changed.bytes()], &wanted]);
    millrace.stop();
    Ok(())
}

#[test]
fn normal_learns_and_secure_is_closed() -> Result<()> {
    let home = Home::new();
    let config = |mode| (switched(&["a", "b", "c"]), failing(mode), sleeper());
    let millrace = home.start(config(FailMode::Secure));
    let mut guests = guests(&home, &millrace, ["a", "b", "c"]);
    let burst = [Packet::udp(1, 2, 1).bytes()];
    send(&mut guests[0], &burst);
    wait_for("the frame to be dropped", || (dropped(&millrace, "a", "no-flow") == 1).then_some(()));
    of(&home, "add-flow", &["priority=0,actions=NORMAL"]);
    send(&mut guests[0], &burst);
    expect(&mut guests, &[&[], &burst, &burst]);
    let answer = [Packet::udp(2, 1, 1).bytes()];
    send(&mut guests[1], &answer);
    expect(&mut guests, &[&answer, &[], &[]]);
    assert_eq!(millrace.macs().len(), 2);
    // A reload changes the handling of frames while there are no flows.
    of(&home, "del-flows", &[]);
    home.configure(config(FailMode::Standalone));
    let report = millrace.reload();
    assert!(report.to_string().starts_with("changed bridge br0 (flows); kept "), "{report}");
    assert!(report.needs_restart.is_empty(), "{report}");
    send(&mut guests[1], &answer);
    expect(&mut guests, &[&answer, &[], &[]]);
    millrace.stop();
    Ok(())
}

#[test]
fn frames_pass_while_thousands_of_flows_change() -> Result<()> {
    const FLOWS: usize = 4000;
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b"]), channel(), sleeper()));
    let mut guests = guests(&home, &millrace, ["a", "b"]);
    of(&home, "add-flow", &["priority=1,in_port=1,actions=output:2"]);
    let burst: Vec<_> = (0..32).map(|port| Packet::udp(1, 2, port).bytes()).collect();
    let mut bursts = 0;
    let mut change = |command: &str, actions: &str| {
        let flow = |number: usize| {
            let [high, low] = (number as u16).to_be_bytes();
            let mask = if number.is_multiple_of(2) { "" } else { ",tp_dst=53" };
            format!("{command} priority=9,udp,nw_dst=198.51.{high}.{low}{mask}{actions}\n")
        };
        let file = home.path("flows.txt");
        std::fs::write(&file, (0..FLOWS).map(flow).collect::<String>()).unwrap();
        // It sends each with a barrier, and waits for the answer.
        let mut controller = ofctl(&home, "add-flows", &[file.to_str().unwrap()]).spawn().unwrap();
        loop {
            send(&mut guests[0], &burst);
            expect(&mut guests, &[&[], &burst]);
            bursts += 1;
            if let Some(status) = controller.try_wait().unwrap() {
                break assert!(status.success(), "{status}");
            }
        }
    };
    // Twice, so that places of deleted flows are used again.
    for _ in 0..2 {
        change("add", ",actions=drop");
        assert_eq!(shown(&home).datapath.unwrap().flows, FLOWS + 1);
        change("delete_strict", "");
        assert_eq!(shown(&home).datapath.unwrap().flows, 1);
    }
    let text = of(&home, "dump-flows", &[]);
    assert!(text.contains(&format!("n_packets={},", 32 * bursts)), "{bursts} bursts: {text}");
    millrace.stop();
    Ok(())
}

#[test]
fn ports_keep_their_numbers() -> Result<()> {
    let home = Home::new();
    let config = |ports: &[&str]| (switched(ports), channel(), sleeper());
    let millrace = home.start(config(&["a", "b", "c"]));
    let numbers = || {
        let text = of(&home, "dump-ports-desc", &[]);
        let lines = text.lines().filter(|line| line.contains("): addr:"));
        lines.map(|line| line.trim().split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(), ["1(a)", "2(b)", "3(c)"]);
    of(&home, "add-flow", &["in_port=3,actions=output:1"]);
    home.configure(config(&["c", "d", "a"]));
    millrace.reload();
    assert_eq!(numbers(), ["1(a)", "3(c)", "4(d)"]);
    let mut guests = guests(&home, &millrace, ["a", "c", "d"]);
    let burst = [Packet::udp(3, 1, 1).bytes()];
    send(&mut guests[1], &burst);
    expect(&mut guests, &[&burst, &[], &[]]);
    home.configure(config(&["a", "b", "c"]));
    millrace.reload();
    assert_eq!(numbers(), ["1(a)", "2(b)", "3(c)"]);
    let text = of(&home, "dump-ports", &["3"]);
    assert!(text.contains("rx pkts=1,"), "{text}");
    let text = of(&home, "show", &[]);
    assert!(text.contains("n_tables:17") && text.contains("2(b)"), "{text}");
    millrace.stop();
    Ok(())
}

/// Unsupported requests are refused and change nothing.
#[test]
fn errors_are_those_of_the_specification() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((switched(&["a", "b"]), channel(), sleeper()));
    for (flow, error) in [
        ("priority=1,actions=group:1", "OFPBAC_BAD_OUT_GROUP"),
        ("priority=1,actions=goto_table:16", "OFPBIC_BAD_TABLE_ID"),
        ("priority=1,actions=output:7", "OFPBAC_BAD_OUT_PORT"),
        ("priority=1,actions=meter:1,output:1", "OFPMMFC_UNKNOWN_METER"),
        ("table=17,priority=1,actions=output:1", "OFPFMFC_BAD_TABLE_ID"),
        ("priority=1,actions=LOCAL", "OFPBAC_BAD_OUT_PORT"),
    ] {
        let (good, said) = try_of(&home, "add-flow", &[flow]);
        assert!(!good && said.contains(error), "{flow}: {said}");
    }
    of(&home, "add-flow", &["priority=5,in_port=1,actions=output:2"]);
    let (good, said) = try_of(&home, "add-flow", &["check_overlap,priority=5,actions=output:2"]);
    assert!(!good && said.contains("OVERLAP"), "{said}");
    assert_eq!(shown(&home).flows.len(), 1);
    millrace.stop();
    Ok(())
}

/// Every flow's packets are counted, whichever of several workers forwards them.
#[test]
fn workers_share_a_table() -> Result<()> {
    let home = Home::new();
    let listed = |ports: &[&str]| ports.iter().map(|&port| port.to_owned()).collect();
    let workers = [&["a"][..], &["b", "c"]].map(|ports| RawWorker { ports: listed(ports), ..sleeper() });
    let millrace = home.start((switched(&["a", "b", "c"]), channel(), workers));
    let mut guests = guests(&home, &millrace, ["a", "b", "c"]);
    of(&home, "add-flow", &["priority=1,actions=output:3"]);
    for round in 0..20 {
        let (left, right) = (Packet::udp(1, 3, round).bytes(), Packet::udp(2, 3, round).bytes());
        send(&mut guests[0], &[left.clone(), left.clone()]);
        expect(&mut guests, &[&[], &[], &[left.clone(), left]]);
        send(&mut guests[1], std::slice::from_ref(&right));
        expect(&mut guests, &[&[], &[], &[right]]);
        // The table changes each time, and no counts are lost.
        of(&home, "mod-flows", &[if round % 2 == 0 { "actions=output:2,output:3" } else { "actions=output:3" }]);
        of(&home, "mod-flows", &["actions=output:3"]);
        wait_for("the count", || (flow(&home, "any").packets == 3 * (u64::from(round) + 1)).then_some(()));
    }
    millrace.stop();
    Ok(())
}
