//! Tests of the channel with `ovs-ofctl`, over TCP and a unix socket.

use super::{Datapath, Service};
use crate::config::{ListenAddress, Openflow};
use crate::serve::Stop;
use engine::stats::{AggregationFlow, AggregationStats, NextHopStats, PortStats, QueueStats, Snapshot};
use openflow::{Action, Counters, PacketIn, PortConfig, Rules, WantedPackets};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Recorder {
    laid: Mutex<Vec<Vec<(u32, u16)>>>,
    snapshot: Mutex<Snapshot>,
    /// Never readable.
    silence: Stop,
}

impl Recorder {
    fn new() -> Self {
        Self { laid: Mutex::default(), snapshot: Mutex::default(), silence: Stop::new().unwrap() }
    }
}

impl Datapath for Recorder {
    fn snapshot(&self) -> Snapshot {
        self.snapshot.lock().unwrap().clone()
    }

    fn lay_flows(&self, flows: Vec<AggregationFlow>) {
        self.laid.lock().unwrap().push(flows.iter().map(|flow| (flow.sc, flow.nfi)).collect());
    }

    fn set_flows(&self, rules: Rules) {
        assert_eq!(rules.len(), 0, "there is no room for any");
    }

    fn flow_counters(&self) -> Arc<Counters> {
        Arc::default()
    }

    fn missed(&self) -> Vec<u64> {
        vec![0; 16]
    }

    fn configure_port(&self, _: u32, _: PortConfig) {}

    fn packet_out(&self, _: u32, _: &[Action], _: &[u8]) {
        panic!("no bridge has `openflow`");
    }

    fn want_packets(&self, _: WantedPackets) {}

    fn packet_ins(&self, _: &mut dyn FnMut(&PacketIn<'_>) -> bool) {}

    fn relayed_flows(&self, _: &mut dyn FnMut(&[u8])) {}

    fn notifier(&self) -> BorrowedFd<'_> {
        self.silence.as_fd()
    }

    fn clear_notifier(&self) {}
}

fn config(listen: Vec<ListenAddress>) -> Openflow {
    Openflow { listen, controllers: Vec::new(), datapath_id: 0x1234 }
}

/// Runs `ovs-ofctl -O OpenFlow13 COMMAND SWITCH ARGUMENTS`; returns whether it succeeded, and its output.
fn ofctl(switch: &str, command: &str, arguments: &[&str]) -> (bool, String) {
    let mut ofctl = Command::new("ovs-ofctl");
    ofctl.args(["-O", "OpenFlow13", "-t", "120", command, switch]).args(arguments);
    let output = ofctl.output().expect("ovs-ofctl runs; it is in the Debian package openvswitch-common");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success() && !text.contains("OFPT_ERROR"), text)
}

/// Serves while `client` runs with the addresses for `ovs-ofctl`.
fn with_service(datapath: &Recorder, client: impl FnOnce(&str, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("of.sock");
    let listen = vec![ListenAddress::Tcp("127.0.0.1:0".parse().unwrap()), ListenAddress::Unix(path.clone())];
    let service = Service::bind(&config(listen)).unwrap();
    let tcp = format!("tcp:{}", service.tcp_addresses().next().unwrap());
    let stop = Stop::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(datapath, &stop));
        // Set also if the client panics, or the scope would wait forever.
        struct SetOnDrop<'a>(&'a Stop);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        let _stop = SetOnDrop(&stop);
        client(&tcp, &format!("unix:{}", path.display()));
    });
}

#[test]
fn controllers_set_next_hops_and_nothing_else() {
    let datapath = Recorder::new();
    with_service(&datapath, |tcp, unix| {
        let last = || datapath.laid.lock().unwrap().last().cloned().unwrap_or_default();
        let good = |switch: &str, command: &str, arguments: &[&str]| {
            let (good, text) = ofctl(switch, command, arguments);
            assert!(good, "{command} {arguments:?}: {text}");
            text
        };
        good(tcp, "add-flow", &["table=16,dl_vlan=100,actions=write_metadata:7"]);
        assert_eq!(last(), [(100, 7)]);
        good(unix, "add-flow", &["table=16,dl_vlan=101,actions=write_metadata:0"]);
        // This switch looks up VLANs: a VNI is stored, but has no effect.
        good(unix, "add-flow", &["table=16,tun_id=5000,actions=write_metadata:8"]);
        assert_eq!(last(), [(100, 7), (101, 0)]);
        assert!(good(tcp, "dump-flows", &["table=16"]).contains("dl_vlan=100 actions=write_metadata:0x7"));
        good(tcp, "del-flows", &["table=16,dl_vlan=100"]);
        assert_eq!(last(), [(101, 0)]);
        for (flow, error) in [
            ("table=0,priority=1,in_port=1,actions=drop", "OFPFMFC_TABLE_FULL"),
            ("table=16,in_port=1,actions=write_metadata:7", "OFPBMC_BAD_WILDCARDS"),
        ] {
            let (good, text) = ofctl(tcp, "add-flow", &[flow]);
            assert!(!good && text.contains(error), "{flow}: {text}");
        }
        let next_hops = vec![NextHopStats { nfi: 9, ..NextHopStats::default() }];
        datapath.snapshot.lock().unwrap().aggregation =
            Some(AggregationStats { service_chain_id: "vni".into(), next_hops, ..AggregationStats::default() });
        good(tcp, "add-flow", &["table=16,tun_id=5001,actions=write_metadata:9"]);
        assert_eq!(last(), [(5000, 8), (5001, 9)]);
        good(tcp, "add-flow", &["table=16,tun_id=5002,hard_timeout=1,actions=write_metadata:9"]);
        let deadline = Instant::now() + Duration::from_secs(120);
        while last().len() != 2 {
            assert!(Instant::now() < deadline, "the flow should have ended: {:?}", last());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn ports_are_shown_with_what_they_have_counted() {
    let datapath = Recorder::new();
    let queue = |packets| QueueStats { rx_packets: packets, tx_bytes: 7, ..QueueStats::default() };
    let drops = [("busy".to_owned(), 4), ("bad-buffer".to_owned(), 5)].into();
    let port =
        PortStats { name: "wan".into(), up: true, queues: vec![queue(1), queue(2)], drops, ..Default::default() };
    let nf = PortStats { name: "nf".into(), ..PortStats::default() };
    datapath.snapshot.lock().unwrap().ports = vec![port, nf.clone()];
    with_service(&datapath, |tcp, _| {
        let (_, text) = ofctl(tcp, "show", &[]);
        assert!(text.contains("dpid:0000000000001234") && text.contains("1(wan)") && text.contains("2(nf)"), "{text}");
        assert!(text.contains("LINK_DOWN"), "{text}");
        let (_, text) = ofctl(tcp, "dump-ports", &["1"]);
        assert!(text.contains("rx pkts=3,") && text.contains("drop=5"), "{text}");
        assert!(text.contains("bytes=14, drop=4"), "{text}");
        datapath.snapshot.lock().unwrap().ports = vec![nf];
        let (_, text) = ofctl(tcp, "dump-ports-desc", &[]);
        assert!(!text.contains("wan") && text.contains("2(nf)"), "{text}");
    });
}
