//! Tests that nothing on the path of a frame allocates: workers forward by patches, a bridge, flows and tunnels, join
//! and split, and send through rings, while an allocator counts their calls.
#![allow(unsafe_code)] // A global allocator needs it.

use engine::Switch;
use engine::port::{pcap, sink, vhost_user, virtio_user};
use engine::spec::{
    AggregationSpec, BridgeSpec, Chains, Driver, FailMode, Idle, Mode, NextHopSpec, Pace, PortSpec, Spec, Vlan,
    WorkerSpec,
};
use engine::stats::Snapshot;
use openflow::ofp::port;
use openflow::{Action, Counters, Field, FlowId, Match, Program, Rule, Rules};
use packet::MacAddr;
use paflow::Receiver;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::vxlan::{Endpoints, TunnelEnd};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Allocations and releases of each thread, by its id, in the order of their first calls.
static THREADS: [(AtomicUsize, AtomicU64); 64] = [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; 64];

struct Counting;

impl Counting {
    fn count() {
        let id = rustix::thread::gettid().as_raw_nonzero().get() as usize;
        let own = THREADS.iter().find(|(thread, _)| {
            let taken = thread.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(id)
        });
        own.expect("few threads allocate").1.fetch_add(1, Ordering::Relaxed);
    }

    fn of(id: usize) -> u64 {
        THREADS
            .iter()
            .find(|(thread, _)| thread.load(Ordering::Relaxed) == id)
            .map_or(0, |(_, n)| n.load(Ordering::Relaxed))
    }
}

// SAFETY: everything is left to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the threads of this process that are workers.
fn workers() -> Vec<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let is_worker = |path: PathBuf| std::fs::read_to_string(path).is_ok_and(|name| name.starts_with("worker-"));
    let workers = tasks.filter(|task| is_worker(task.path().join("comm")));
    workers.map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// Returns frame `number` of a stream, with a length, stations and a VLAN out of a few.
fn frame(number: usize) -> Vec<u8> {
    let len = [60, 61, 64, 200, 700, 1500][number % 6];
    let mut bytes = vec![number as u8; len];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 1, (number % 7) as u8]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 1, (number % 5) as u8]);
    bytes[12..18].copy_from_slice(&[0x81, 0, 0, 10 + (number % 4) as u8, 0x08, 0x00]);
    bytes[18] = 0x45;
    bytes
}

/// Returns a port that replays these frames forever.
fn replay(home: &Path, name: &str, frames: &[Vec<u8>]) -> PortSpec {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 0xffff, 1].map(u32::to_le_bytes).concat();
    for frame in frames {
        file.extend([0, 0, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    let path = home.join(name);
    std::fs::write(&path, file).unwrap();
    PortSpec::new(
        name,
        Driver::Pcap(pcap::Settings { replay: Some(path), record: None, repeat: true, pace: Pace::default() }),
    )
}

fn sink(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::Sink(sink::Settings))
}

fn aggregation(own: u8, other: u8) -> AggregationSpec {
    let addresses = Addresses::V4 { source: [192, 0, 2, own].into(), destination: [192, 0, 2, other].into() };
    let checksum = Checksum::Computed;
    let tunnel = Tunnel { addresses, source_port: 50_000, destination_port: 50_261, hop_limit: 64, checksum };
    let [source, destination] = [own, other].map(|node| MacAddr([2, 0, 0, 0, 0, node]));
    let route = Route { source, destination, vlan: Some(5), routed: false, carrier: Carrier::Udp(tunnel) };
    AggregationSpec {
        mtu: 1500,
        chains: Chains::Vlan,
        receiver: Receiver::default(),
        mac: source,
        addresses: vec![[192, 0, 2, own].into()],
        drop_unknown: false,
        relay: None,
        next_hops: vec![NextHopSpec { nfi: 7, route, port: None }],
        flows: vec![(10, 7), (11, 7), (12, 7)],
    }
}

fn end(own: u8, other: u8) -> TunnelEnd {
    let addresses = Addresses::V4 { source: [192, 0, 2, own].into(), destination: [192, 0, 2, other].into() };
    let [source, destination] = [own, other].map(|node| MacAddr([2, 0, 0, 0, 0, node]));
    let checksum = Checksum::Computed;
    let endpoints = Endpoints { source, destination, addresses, port: 4789, vni: 100, hop_limit: 64, checksum };
    TunnelEnd::new(&endpoints, 2000).unwrap()
}

fn patch(a: &str, b: &str) -> [String; 2] {
    [a.into(), b.into()]
}

fn poller() -> WorkerSpec {
    WorkerSpec { idle: Idle::Poll, ..WorkerSpec::default() }
}

/// Returns the switch that joins; all other features are here as well.
fn near(home: &Path, socket: &Path) -> Spec {
    let frames: Vec<_> = (0..96).map(frame).collect();
    let tunnelled: Vec<_> = (0..32)
        .map(|number| {
            let (inside, outside) = (frame(number), end(2, 1));
            let mut headers = outside.headers();
            outside.complete(&mut headers, &inside[..]);
            [&headers[..], &inside].concat()
        })
        .collect();
    let uplink = Driver::VirtioUser(virtio_user::Settings {
        socket: socket.into(),
        mode: Mode::Client,
        queues: 1,
        queue_sizes: 256.into(),
        packed: false,
        offloads: None,
    });
    let bridge = |name: &str, ports: &[&str], flows: Option<FailMode>| BridgeSpec {
        name: name.into(),
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        ageing: Duration::from_secs(300),
        learned_limit: 4096,
        forwards_reserved: false,
        statics: Vec::new(),
        flows,
    };
    let plain = |name: &str| replay(home, name, &frames);
    let end = Some(end(1, 2));
    Spec {
        ports: vec![
            plain("chains"),
            PortSpec { aggregate: true, ..PortSpec::new("uplink", uplink) },
            PortSpec { vlan: Vlan::Trunk(vec![]), ..plain("one") },
            PortSpec { vlan: Vlan::Access(10), ..sink("two") },
            PortSpec { vlan: Vlan::Trunk(vec![]), ..plain("three") },
            plain("flows"),
            sink("flowed"),
            plain("inside"),
            PortSpec { vxlan: end.clone(), ..sink("tunnel") },
            PortSpec { vxlan: end, ..replay(home, "outside", &tunnelled) },
            sink("taken"),
        ],
        patches: vec![patch("chains", "uplink"), patch("inside", "tunnel"), patch("outside", "taken")],
        bridges: vec![
            bridge("learns", &["one", "two", "three"], None),
            bridge("flows", &["flows", "flowed"], Some(FailMode::Secure)),
        ],
        aggregation: Some(aggregation(1, 2)),
        workers: vec![poller()],
        ..Spec::default()
    }
}

/// Returns the switch that splits, and joins again.
fn far(socket: &Path) -> Spec {
    let guest = Driver::VhostUser(vhost_user::Settings::at(socket));
    let joined = |port: PortSpec| PortSpec { aggregate: true, ..port };
    Spec {
        ports: vec![joined(PortSpec::new("near", guest)), joined(sink("out"))],
        patches: vec![patch("near", "out")],
        aggregation: Some(aggregation(2, 1)),
        workers: vec![poller()],
        ..Spec::default()
    }
}

/// Returns a flow for one VLAN that changes frames, and one for all others.
fn flows(counters: &Arc<Counters>) -> Rules {
    let to = |port| Action::Output { port, max_len: 0xffff };
    let vlan = Match::any().with(Field::VlanVid, 0x100a, u128::MAX);
    let changes = [Action::SetField(Field::EthSrc, 0x0200_0000_0009), Action::PopVlan, to(2)];
    let mut flows = Rules::default();
    for (id, priority, matches, actions) in [(1, 9, vlan, &changes[..]), (2, 1, Match::any(), &[to(port::NORMAL)])] {
        let slot = Arc::new(counters.slot().unwrap());
        let rule = Rule { flow: FlowId(id), slot, cookie: id, table: 0, is_miss: false, program: Program::of(actions) };
        flows.insert(0, &matches, priority, rule);
    }
    flows
}

fn bursts(snapshot: &Snapshot, name: &str) -> u64 {
    let port = snapshot.ports.iter().find(|port| port.name == name).unwrap();
    port.queues.iter().flat_map(|queue| queue.bursts).sum()
}

#[test]
fn workers_allocate_nothing_once_they_are_warm() {
    const RECEIVING: [&str; 6] = ["chains", "one", "three", "flows", "inside", "outside"];
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("uplink.sock");
    let far = Switch::start(far(&socket)).unwrap();
    let near = Switch::start(near(home.path(), &socket)).unwrap();
    near.set_flows(flows(&near.flow_counters()));
    let passes = |least: u64| {
        let began = Instant::now();
        let start = (near.snapshot(), far.snapshot());
        loop {
            let now = (near.snapshot(), far.snapshot());
            let counts = RECEIVING.map(|name| bursts(&now.0, name) - bursts(&start.0, name));
            let split = bursts(&now.1, "near") - bursts(&start.1, "near");
            if counts.into_iter().chain([split]).all(|count| count > least) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(240), "{counts:?}, {split} of {least} bursts");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    passes(500);
    let workers = workers();
    assert_eq!(workers.len(), 2);
    let counts = || workers.iter().map(|&worker| Counting::of(worker)).collect::<Vec<_>>();
    let before = counts();
    assert!(before.iter().all(|&count| count > 0), "they are counted: {before:?}");
    passes(5000);
    assert_eq!(counts(), before, "allocations of the workers");
    // Everything intended was done.
    let (near, far) = (near.snapshot(), far.snapshot());
    let datapath = near.datapath.as_ref().unwrap();
    assert!(datapath.matched > 0, "of {} frames none has a flow", datapath.lookups);
    let joined = |snapshot: &Snapshot, port: usize| snapshot.aggregation.as_ref().unwrap().ports[port].clone();
    assert!(joined(&near, 0).sent.aggregates > 0, "joined");
    assert!(joined(&far, 0).received.aggregates > 0 && joined(&far, 1).sent.aggregates > 0, "split, and joined again");
    let sent = |name: &str| {
        let port = near.ports.iter().find(|port| port.name == name).unwrap();
        port.queues.iter().map(|queue| queue.tx_packets).sum::<u64>()
    };
    for name in ["two", "flowed", "tunnel", "taken"] {
        assert!(sent(name) > 0, "sent to {name}: {:?}", near.ports);
    }
}
