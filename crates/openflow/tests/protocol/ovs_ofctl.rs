//! A real client, `ovs-ofctl`, against the state machine over TCP and unix sockets.

use crate::controller::count_packets;
use crate::server::{Server, run};
use openflow::{Action, Event, Field, Key, Match, PacketIn, PacketInReason, PortStats, ServiceChain, To, ofp::port};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn show_describes_the_switch_and_its_ports() {
    let server = Server::start();
    let text = server.ofctl("show", &[]);
    assert!(text.contains("dpid:0000000000001122") && text.contains("n_tables:17, n_buffers:0"), "{text}");
    assert!(text.contains("1(p1): addr:02:00:00:00:00:01") && text.contains("2(p2)"), "{text}");
    assert!(text.contains("LIVE") && text.contains("miss_send_len=128"), "{text}");
    let text = server.ofctl("dump-desc", &[]);
    assert!(text.contains("Manufacturer: Millrace") && text.contains("DP Description: under test"), "{text}");
    let mut unix = Command::new("ovs-ofctl");
    unix.args(["-O", "OpenFlow13", "-t", "120", "dump-ports-desc", &server.unix]);
    let text = String::from_utf8(run(unix).stdout).unwrap();
    assert!(text.contains("1(p1)"), "{text}");
}

#[test]
fn ports_and_tables_are_counted() {
    let server = Server::start();
    let text = server.ofctl("dump-ports", &[]);
    assert!(text.contains("2 ports") && text.contains("rx pkts=11, bytes=1100"), "{text}");
    server.switch().set_port_stats(2, PortStats { tx_dropped: 77, ..PortStats::default() });
    let text = server.ofctl("dump-ports", &["2"]);
    assert!(text.contains("1 ports") && text.contains("drop=77"), "{text}");
    assert!(server.ofctl_fails("dump-ports", &["9"]).contains("OFPBRC_BAD_PORT"));
    server.switch().tables_mut().forwarding_mut()[0].set_missed(100);
    let text = server.ofctl("dump-tables", &[]);
    assert!(text.contains("lookup=100, matched=0"), "{text}");
    let text = server.ofctl("dump-table-features", &[]);
    assert!(text.contains("forwarding") && text.contains("aggregation") && text.contains("push_vlan"), "{text}");
    assert!(text.contains("arbitrary mask: tun_id metadata eth_{src,dst}"), "{text}");
}

#[test]
fn every_match_and_action_goes_in_and_comes_out() {
    let server = Server::start();
    let flows = [
        "priority=10,in_port=1 actions=output:2",
        "priority=11,dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=FLOOD",
        "priority=12,dl_vlan=100,dl_vlan_pcp=3 actions=pop_vlan,ALL",
        "priority=13,vlan_tci=0x0000/0x1fff actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:2",
        "priority=14,vlan_tci=0x1000/0x1000 actions=set_field:5->vlan_pcp,NORMAL",
        "priority=15,ip,nw_src=10.0.0.0/8,nw_dst=10.1.2.3 actions=set_field:10.9.9.9->ip_dst,IN_PORT",
        "priority=16,tcp,tp_src=80,tp_dst=1000 actions=set_field:81->tcp_src,output:1",
        "priority=17,udp,tp_dst=53 actions=CONTROLLER:65535",
        "priority=17,sctp,tp_dst=53 actions=set_field:9->sctp_src,output:1",
        "priority=18,ipv6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1 actions=set_field:2001:db8::2->ipv6_dst,output:1",
        "priority=19,udp6,tp_src=53 actions=set_field:02:00:00:00:00:09->eth_dst,output:1",
        "priority=20,tun_id=0x1234 actions=set_field:0x99->tun_id,output:2",
        "priority=21,arp actions=drop",
        "priority=22,ip,nw_proto=47 actions=write_actions(output:2)",
        "priority=23,dl_type=0x88cc actions=clear_actions,write_actions(CONTROLLER:65535)",
    ];
    for flow in flows {
        server.ofctl("add-flow", &[flow]);
    }
    let text = server.ofctl("dump-flows --no-stats", &[]);
    let dumped: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(server.switch().tables().all()[0].len(), flows.len(), "{text}");
    for part in [
        "priority=10,in_port=1 actions=output:2",
        "dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=FLOOD",
        "dl_vlan=100,dl_vlan_pcp=3 actions=pop_vlan,ALL",
        "set_field:4196->vlan_vid,output:2",
        "set_field:5->vlan_pcp,NORMAL",
        "ip,nw_src=10.0.0.0/8,nw_dst=10.1.2.3 actions=set_field:10.9.9.9->ip_dst,IN_PORT",
        "tcp,tp_src=80,tp_dst=1000 actions=set_field:81->tcp_src,output:1",
        "udp,tp_dst=53 actions=CONTROLLER:65535",
        "ipv6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1 actions=set_field:2001:db8::2->ipv6_dst,output:1",
        "udp6,tp_src=53 actions=set_field:02:00:00:00:00:09->eth_dst,output:1",
        "tun_id=0x1234 actions=set_field:0x99->tun_id,output:2",
        "arp actions=drop",
        "ip,nw_proto=47 actions=write_actions(output:2)",
        "dl_type=0x88cc actions=clear_actions,write_actions(CONTROLLER:65535)",
    ] {
        assert!(dumped.iter().any(|line| line.contains(part)), "{part} is not in\n{text}");
    }
}

#[test]
fn flows_are_modified_deleted_and_counted() {
    let server = Server::start();
    for flow in [
        "priority=10,cookie=0x1,ip,nw_src=10.0.0.0/8 actions=output:1",
        "priority=20,cookie=0x2,ip,nw_src=10.1.0.0/16 actions=output:1",
        "priority=20,cookie=0x3,udp actions=output:2",
    ] {
        server.ofctl("add-flow", &[flow]);
    }
    let count = |filter: &str| server.ofctl("dump-flows", &[filter]).matches("actions=").count();
    assert_eq!((count(""), count("ip"), count("ip,nw_src=10.0.0.0/8"), count("out_port=2")), (3, 3, 2, 1));
    assert_eq!(count("cookie=0x2/-1"), 1);

    server.ofctl("mod-flows", &["ip,nw_src=10.0.0.0/8 actions=output:2"]);
    assert_eq!(count("out_port=2"), 3);
    server.ofctl("mod-flows --strict", &["priority=10,ip,nw_src=10.0.0.0/8 actions=output:1"]);
    assert_eq!((count("out_port=2"), count("out_port=1")), (2, 1));

    let frame = frame_from([10, 1, 0, 1]);
    let key = Key::extract(&frame, 1, 0).unwrap();
    count_packets(&mut server.switch(), &key, 5, 500, 0);
    assert!(server.ofctl("dump-flows", &["cookie=0x2/-1"]).contains("n_packets=5, n_bytes=500"));
    let text = server.ofctl("dump-aggregate", &["ip"]);
    assert!(text.contains("packet_count=5 byte_count=500 flow_count=3"), "{text}");

    server.ofctl("del-flows --strict", &["priority=11,udp"]);
    assert_eq!(count(""), 3);
    server.ofctl("del-flows --strict", &["priority=20,udp"]);
    assert_eq!(count(""), 2);
    server.ofctl("del-flows", &["cookie=0x1/-1"]);
    assert_eq!(count(""), 1);
    server.ofctl("del-flows", &[]);
    assert_eq!(count(""), 0);
}

#[test]
fn ports_are_taken_down_and_up() {
    let server = Server::start();
    let config = || server.ofctl("dump-ports-desc", &["2"]);
    assert!(config().contains("config:     0\n") && config().contains("speed: 10000 Mbps now"), "{}", config());
    server.ofctl("mod-port", &["2", "down"]);
    assert!(config().contains("config:     PORT_DOWN\n"), "{}", config());
    server.ofctl("mod-port", &["2", "no-packet-in"]);
    server.ofctl("mod-port", &["2", "up"]);
    assert!(config().contains("config:     NO_PACKET_IN\n"), "{}", config());
}

#[test]
fn bundles_of_flows_are_all_or_nothing() {
    let server = Server::start();
    let file = std::env::temp_dir().join(format!("openflow-bundle-{}", std::process::id()));
    std::fs::write(&file, "dl_vlan=1 actions=output:1\ndl_vlan=2 actions=output:2\n").unwrap();
    server.ofctl("--bundle add-flows", &[file.to_str().unwrap()]);
    std::fs::write(&file, "delete\ndl_vlan=3 actions=output:1\ndl_vlan=4 actions=output:9\n").unwrap();
    let text = server.ofctl_fails("--bundle add-flows", &[file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert!(text.contains("OFPBAC_BAD_OUT_PORT") && text.contains("OFPBFC_MSG_FAILED"), "{text}");
    let text = server.ofctl("dump-flows", &[]);
    assert!(text.contains("dl_vlan=1 ") && text.contains("dl_vlan=2 ") && !text.contains("dl_vlan=3 "), "{text}");
}

#[test]
fn meters_are_set_and_shown() {
    let server = Server::start();
    server.ofctl("add-meter", &["meter=1,pktps,burst,stats,band=type=drop,rate=100,burst_size=20"]);
    server.ofctl("add-meter", &["meter=2,kbps,band=type=dscp_remark,rate=5000,prec_level=1"]);
    server.ofctl("add-flow", &["udp actions=meter:1,output:2"]);
    let text = server.ofctl("dump-meters", &[]);
    assert!(text.contains("meter=1 pktps burst stats bands=\ntype=drop rate=100 burst_size=20"), "{text}");
    assert!(text.contains("meter=2 kbps bands=\ntype=dscp_remark rate=5000"), "{text}");
    let text = server.ofctl("meter-stats", &["meter=1"]);
    assert!(text.contains("meter:1 flow_count:1 packet_in_count:0"), "{text}");
    let text = server.ofctl("meter-features", &[]);
    assert!(text.contains("max_meter:4096") && text.contains("drop dscp_remark"), "{text}");
    assert!(server.ofctl("dump-flows", &["udp"]).contains("meter:1,output:2"));
    server.ofctl("del-meters", &[]);
    assert!(!server.ofctl("dump-flows", &["udp"]).contains("meter:1"));
}

/// Builds a TCP packet with this source address.
fn frame_from(source: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[17] = 46;
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&source);
    frame
}

#[test]
fn thousands_of_flows_take_several_replies() {
    let server = Server::start();
    let file = std::env::temp_dir().join(format!("openflow-flows-{}", std::process::id()));
    let flows: String =
        (0..3000).map(|n| format!("ip,nw_dst=10.0.{}.{} actions=output:1\n", n / 250, n % 250)).collect();
    std::fs::write(&file, flows).unwrap();
    let result = server.ofctl_raw("add-flows", &[file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    assert_eq!(server.ofctl("dump-flows", &[]).matches("actions=").count(), 3000);
}

#[test]
fn what_is_refused_is_refused_with_the_right_error() {
    let server = Server::start();
    server.ofctl("add-flow", &["priority=5,ip,nw_src=10.0.0.0/8 actions=output:1"]);
    for (flow, error) in [
        ("actions=group:1", "OFPBAC_BAD_OUT_GROUP"),
        ("actions=goto_table:16", "OFPBIC_BAD_TABLE_ID"),
        ("actions=output:9", "OFPBAC_BAD_OUT_PORT"),
        ("actions=meter:1,output:1", "OFPMMFC_UNKNOWN_METER"),
        ("table=17,actions=output:1", "OFPFMFC_BAD_TABLE_ID"),
        ("actions=TABLE", "OFPBAC_BAD_OUT_PORT"),
        ("actions=set_queue:1", "OFPBAC_BAD_TYPE"),
        // The name that OpenFlow 1.0 had for an unknown experimenter.
        ("actions=resubmit:1", "OFPBAC_BAD_VENDOR"),
        ("check_overlap,priority=5,ip,nw_dst=10.0.0.1,actions=output:1", "OFPFMFC_OVERLAP"),
        ("table=16,in_port=1,actions=write_metadata:7", "OFPBMC_BAD_WILDCARDS"),
        ("table=16,dl_vlan=5,actions=output:1", "OFPBAC_BAD_ARGUMENT"),
        ("table=16,dl_vlan=5,actions=write_metadata:65536", "OFPBIC_UNSUP_METADATA"),
    ] {
        let text = server.ofctl_fails("add-flow", &[flow]);
        assert!(text.contains(error), "{flow}: {text}");
    }
    assert_eq!(server.switch().tables().all()[0].len(), 1);
}

#[test]
fn chains_are_set_with_plain_controllers() {
    let server = Server::start();
    server.ofctl("add-flow", &["table=16,dl_vlan=100,actions=write_metadata:7"]);
    server.ofctl("add-flow", &["table=16,tun_id=5000,actions=write_metadata:8"]);
    let hops = server.switch().next_hops();
    assert_eq!(hops.into_iter().collect::<Vec<_>>(), [(ServiceChain::Vid(100), 7), (ServiceChain::Vni(5000), 8)]);
    server.ofctl("mod-flows", &["table=16,dl_vlan=100,actions=write_metadata:9"]);
    assert_eq!(server.switch().next_hops()[&ServiceChain::Vid(100)], 9);
    let text = server.ofctl("dump-flows", &["table=16"]);
    assert!(text.contains("dl_vlan=100 actions=write_metadata:0x9"), "{text}");
    assert!(server.switch().tables().all()[0].is_empty());
    server.ofctl("del-flows", &["table=16,dl_vlan=100"]);
    assert_eq!(server.switch().next_hops().len(), 1);
    // A switch that knows its next hops takes no other; flows that it has stay.
    server.switch().tables_mut().set_next_hops(Some([7].into()));
    let refused = server.ofctl_fails("add-flow", &["table=16,dl_vlan=101,actions=write_metadata:8"]);
    assert!(refused.contains("OFPBAC_BAD_ARGUMENT"), "{refused}");
    server.ofctl("add-flow", &["table=16,dl_vlan=101,actions=write_metadata:7"]);
    server.ofctl("add-flow", &["table=16,dl_vlan=102,actions=write_metadata:0"]);
    assert_eq!(server.switch().next_hops().len(), 3);
}

#[test]
fn packets_go_out() {
    let server = Server::start();
    let packet = "packet=0200000000020200000000010800";
    server.ofctl("packet-out", &[&format!("in_port=1 {packet} actions=push_vlan:0x8100,output:2,TABLE")]);
    let event = server.switch().event();
    let Some(Event::PacketOut { in_port, actions, data }) = event else { panic!("{event:?}") };
    let output = |port| Action::Output { port, max_len: 0 };
    assert_eq!((in_port, actions), (1, vec![Action::PushVlan(0x8100), output(2), output(port::TABLE)]));
    assert_eq!(data, [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
}

/// A long-running client and its directory; dropping it ends the client and removes the directory.
struct Monitor(Child, std::path::PathBuf);

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

#[test]
fn monitor_sees_packets_removals_and_ports() {
    let server = Server::start();
    let directory = std::env::temp_dir().join(format!("openflow-monitor-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("seen");
    let file = std::fs::File::create(&path).unwrap();
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow13", "monitor", &server.tcp, "65534"]);
    // The directory of its control socket.
    command.env("OVS_RUNDIR", &directory).stdout(Stdio::null()).stderr(file);
    let child = command.spawn().unwrap_or_else(|error| {
        panic!("ovs-ofctl can't be run ({error}); install it: apt-get install -y openvswitch-common")
    });
    let _monitor = Monitor(child, directory);
    let wait = |what: &str, act: &dyn Fn()| {
        let start = Instant::now();
        loop {
            act();
            std::thread::sleep(Duration::from_millis(100));
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains(what) {
                return text;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no {what} in {text}");
        }
    };
    let frame = frame_from([10, 0, 0, 1]);
    let text = wait("nw_src=10.0.0.1", &|| {
        let (reason, cookie) = (PacketInReason::Action, 0x99);
        server.switch().packet_in(&PacketIn {
            table: 3,
            metadata: 5,
            reason,
            cookie,
            in_port: 2,
            tunnel_id: 0,
            data: &frame,
            total_len: frame.len(),
        });
    });
    assert!(
        text.contains("OFPT_PACKET_IN") && text.contains("table_id=3 cookie=0x99 total_len=60 metadata=0x5,in_port=2"),
        "{text}"
    );

    server.ofctl("add-flow", &["cookie=0x55,send_flow_rem,hard_timeout=1,ip,nw_dst=10.0.0.7,actions=output:1"]);
    let text = wait("OFPT_FLOW_REMOVED", &|| {
        let now = server.now();
        server.switch().expire(now);
    });
    assert!(text.contains("nw_dst=10.0.0.7 reason=hard table_id=0 cookie:0x55"), "{text}");

    let text = wait("OFPT_PORT_STATUS", &|| server.switch().remove_port(2));
    assert!(text.contains("DEL: 2(p2)"), "{text}");
}

#[test]
fn another_version_is_refused() {
    let server = Server::start();
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow10", "-t", "120", "show", &server.tcp]);
    let output = run(command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("version negotiation failed"), "{text}");
}

#[test]
fn lookups_follow_the_table() {
    let server = Server::start();
    server.ofctl("add-flow", &["priority=1,actions=NORMAL"]);
    server.ofctl("add-flow", &["priority=9,tcp,nw_src=10.0.0.0/24,actions=output:2"]);
    let switch = server.switch();
    let to = |frame: &[u8]| {
        let rule = switch.tables().lookup(0, &Key::extract(frame, 1, 0).unwrap()).found.unwrap();
        rule.program.steps[0].to
    };
    assert_eq!(to(&frame_from([10, 0, 0, 9])), To::Port(2));
    assert_eq!(to(&frame_from([10, 0, 1, 9])), To::Normal);
    let flow = switch.tables().all()[0].flows().find(|flow| flow.priority == 9).unwrap();
    assert_eq!(flow.matches.exact(Field::IpProto), Some(6));
    assert_ne!(flow.matches, Match::any());
}
