//! Tests of the channel with `ovs-ofctl`, over TCP and a unix socket.

use super::Service;
use crate::config::Config;
use crate::serve::Stop;
use engine::Switch;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns the configuration of a switch that controllers can reach.
fn config(directory: &Path, file: &str) -> Config {
    let text = format!("{file}\n[openflow]\nlisten = ['127.0.0.1:0', 'unix:of.sock']\ndatapath-id = 0x1234\n");
    Config::parse(&directory.join("m.toml"), &text).unwrap_or_else(|report| panic!("{report}")).0
}

/// Runs `ovs-ofctl -O OpenFlow13 COMMAND SWITCH ARGUMENTS`; returns whether it succeeded, and its output.
fn ofctl(switch: &str, command: &str, arguments: &[&str]) -> (bool, String) {
    let mut ofctl = Command::new("ovs-ofctl");
    ofctl.args(["-O", "OpenFlow13", "-t", "120", command, switch]).args(arguments);
    let output = ofctl.output().expect("ovs-ofctl runs; it is in the Debian package openvswitch-common");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success() && !text.contains("OFPT_ERROR"), text)
}

/// Runs `ovs-ofctl`, which succeeds; returns its output.
fn good(switch: &str, command: &str, arguments: &[&str]) -> String {
    let (good, text) = ofctl(switch, command, arguments);
    assert!(good, "{command} {arguments:?}: {text}");
    text
}

/// Runs a switch while `client` runs with it, and with its addresses for `ovs-ofctl`.
fn with_switch(directory: &Path, file: &str, client: impl FnOnce(&Switch, &str, &str)) {
    let config = config(directory, file);
    let service = Service::bind(&config.openflow.unwrap()).unwrap();
    let tcp = format!("tcp:{}", service.tcp_addresses().next().unwrap());
    let unix = format!("unix:{}", directory.join("of.sock").display());
    let switch = Switch::start(config.spec).unwrap();
    let stop = Stop::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(&switch, &stop));
        // Set also if the client panics, or the scope would wait forever.
        struct SetOnDrop<'a>(&'a Stop);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        let _stop = SetOnDrop(&stop);
        client(&switch, &tcp, &unix);
    });
}

/// Waits until `holds`.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} should have come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A switch that aggregates, for the sections that follow.
const AGGREGATION: &str = "port = [{name='wan', driver='sink', aggregate=true}]
[aggregation]
mac = '02:00:00:00:00:01'
addresses = ['192.0.2.1']
next-hop = [{nfi=7, mac='02:00:00:00:00:02', ip='192.0.2.2'}, {nfi=8, mac='02:00:00:00:00:03', ip='192.0.2.3'}]
flow = [{sc=101, nfi=7}]";

/// Returns the aggregation table: service chains and next hops.
fn table(switch: &Switch) -> Vec<(u32, u16)> {
    switch.aggregation_flows().iter().map(|flow| (flow.sc, flow.nfi)).collect()
}

#[test]
fn controllers_set_next_hops_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    with_switch(directory.path(), AGGREGATION, |switch, tcp, unix| {
        assert_eq!(table(switch), [(101, 7)]);
        good(tcp, "add-flow", &["table=16,dl_vlan=100,actions=write_metadata:7"]);
        assert_eq!(table(switch), [(100, 7), (101, 7)]);
        good(unix, "add-flow", &["table=16,dl_vlan=101,actions=write_metadata:0"]);
        // This switch looks up VLANs: a VNI is stored, but has no effect.
        good(unix, "add-flow", &["table=16,tun_id=5000,actions=write_metadata:8"]);
        assert_eq!(table(switch), [(100, 7)]);
        assert!(good(tcp, "dump-flows", &["table=16"]).contains("dl_vlan=100 actions=write_metadata:0x7"));
        good(tcp, "del-flows", &["table=16,dl_vlan=100"]);
        assert_eq!(table(switch), []);
        for (flow, error) in [
            ("table=0,priority=1,in_port=1,actions=drop", "OFPFMFC_TABLE_FULL"),
            ("table=16,in_port=1,actions=write_metadata:7", "OFPBMC_BAD_WILDCARDS"),
            ("table=16,dl_vlan=100,actions=write_metadata:9", "OFPBAC_BAD_ARGUMENT"),
        ] {
            let (good, text) = ofctl(tcp, "add-flow", &[flow]);
            assert!(!good && text.contains(error), "{flow}: {text}");
        }
        good(tcp, "del-flows", &["table=16"]);
        assert_eq!(table(switch), [(101, 7)], "the configuration's flow is in force again");
    });
}

#[test]
fn next_hops_are_set_by_vni_until_their_flows_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!("{AGGREGATION}\nservice-chain-id = 'vni'");
    with_switch(directory.path(), &file, |switch, tcp, _| {
        good(tcp, "add-flow", &["table=16,tun_id=5001,actions=write_metadata:8"]);
        good(tcp, "add-flow", &["table=16,dl_vlan=100,actions=write_metadata:8"]);
        assert_eq!(table(switch), [(101, 7), (5001, 8)]);
        good(tcp, "add-flow", &["table=16,tun_id=5002,hard_timeout=1,actions=write_metadata:8"]);
        wait_for("the flow's end", || table(switch).len() == 2);
        assert_eq!(table(switch), [(101, 7), (5001, 8)]);
    });
}

#[test]
fn ports_are_shown_with_what_they_have_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = |first: &str| {
        format!(
            "port = [{first}{{name='nf', driver='sink'}},
                     {{name='more', driver='generator', size=100, frames=4}},
                     {{name='guest', driver='vhost-user', socket='guest.sock'}}]
             patch = [{{ports=['more', 'guest']}}{}]",
            if first.is_empty() { "" } else { ", {ports=['wan', 'nf']}" }
        )
    };
    let wan = "{name='wan', driver='generator', size=100, frames=3}, ";
    with_switch(directory.path(), &file(wan), |switch, tcp, _| {
        let show = |number: &str| good(tcp, "dump-ports", &[number]);
        wait_for("the wan's frames", || show("2").contains("tx pkts=3, bytes=300, drop=0"));
        wait_for("the lost frames", || show("4").contains("tx pkts=0, bytes=0, drop=4"));
        assert!(show("1").contains("rx pkts=3, bytes=300, drop=0"), "{}", show("1"));
        let text = good(tcp, "show", &[]);
        assert!(text.contains("dpid:0000000000001234") && text.contains("1(wan)") && text.contains("2(nf)"), "{text}");
        let text = good(tcp, "dump-ports-desc", &["4"]);
        assert!(text.contains("4(guest)") && text.contains("LINK_DOWN"), "{text}");
        switch.reload(config(directory.path(), &file("")).spec).unwrap();
        let text = good(tcp, "dump-ports-desc", &[]);
        assert!(!text.contains("wan") && text.contains("2(nf)"), "{text}");
    });
}
