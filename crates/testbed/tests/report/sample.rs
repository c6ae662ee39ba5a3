//! Runs as `testbed run` would write them, with figures from a formula: a report needs many.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const ROUNDS: u32 = 5;
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1500];

/// A fictional switch: the times that it takes to forward a frame, and to answer.
struct Model {
    name: &'static str,
    technique: &'static str,
    /// Nanoseconds for a frame, and for each of its bytes.
    frame: f64,
    byte: f64,
    /// Nanoseconds of an empty round trip.
    trip: f64,
    commands: &'static [&'static str],
}

const MODELS: [Model; 6] = [
    Model {
        name: "millrace",
        technique: "virtio-user",
        frame: 24.0,
        byte: 0.062,
        trip: 2100.0,
        commands: &["millrace run bridge.toml"],
    },
    Model {
        name: "millrace-patch",
        technique: "virtio-user",
        frame: 20.0,
        byte: 0.062,
        trip: 2000.0,
        commands: &["millrace run patch.toml"],
    },
    Model {
        name: "vpp",
        technique: "virtio-user",
        frame: 40.0,
        byte: 0.046,
        trip: 3600.0,
        commands: &[
            "vpp -c startup.conf",
            "vppctl create vhost-user socket a.sock",
            "vppctl set interface l2 bridge 1 1",
        ],
    },
    Model {
        name: "ovs-dpdk",
        technique: "virtio-user",
        frame: 71.0,
        byte: 0.055,
        trip: 4200.0,
        commands: &["ovs-vswitchd --pidfile", "ovs-vsctl add-br br0 -- set bridge br0 datapath_type=netdev"],
    },
    Model {
        name: "testpmd",
        technique: "virtio-user",
        frame: 46.0,
        byte: 0.06,
        trip: 2900.0,
        commands: &["dpdk-testpmd --no-pci -- --forward-mode=io --txd=256 --rxd=256"],
    },
    Model {
        name: "linux-bridge",
        technique: "raw-mmsg",
        frame: 2250.0,
        byte: 0.2,
        trip: 31000.0,
        commands: &["ip link add br0 type bridge", "ip link set veth0 master br0"],
    },
];

/// A number about 1 that follows from these.
fn noise(seed: &[u32], width: f64) -> f64 {
    let hash = seed.iter().fold(2166136261u32, |hash, part| (hash ^ part).wrapping_mul(16777619).rotate_left(13));
    1.0 + width * (f64::from(hash % 2001) / 1000.0 - 1.0)
}

/// A test: the conditions that are the same for all switches.
#[derive(Clone, Copy)]
struct Test {
    dimension: &'static str,
    location: &'static str,
    pairs: u8,
    size: u16,
    burst: u16,
}

const PLAIN: Test = Test { dimension: "throughput", location: "local", pairs: 1, size: 64, burst: 32 };

impl Test {
    fn point(self, model: &Model, rate: &str) -> Value {
        let Test { dimension, location, pairs, size, burst } = self;
        json!({
            "dimension": dimension, "location": location, "pairs": pairs, "switch": model.name, "technique": model.technique,
            "size": size.to_string(), "rate": rate, "burst": burst, "arrivals": "constant", "touch": "full",
        })
    }

    /// Packets per second that a switch forwards, of all pairs.
    fn capacity(self, model: &Model) -> f64 {
        let wire = if self.location == "remote" { 10e9 / (8.0 * f64::from(self.size + 24)) } else { f64::INFINITY };
        let sharing = 1.0 + 0.04 * f64::from(self.pairs - 1);
        (1e9 / (model.frame + model.byte * f64::from(self.size)) / sharing).min(wire)
    }

    fn record(self, model: &Model, round: u32, rate: &str, results: Value) -> Value {
        let near = |round: u32| json!({"nanoseconds": 40.0 + f64::from(round), "distance": "near"});
        let mut record = json!({
            "point": self.point(model, rate), "round": round, "started": format!("2026-11-23T10:{:02}:00Z", round),
            "distance": [near(round), near(round + 1)], "placement": "joined", "reports": [],
            "cpu": [{"name": "switch", "share": 1.0}, {"name": "applications", "share": 1.0}],
            "switch": {
                "version": format!("{} 1.0", model.name), "learns": !["millrace-patch", "testpmd"].contains(&model.name),
                "commands": model.commands,
            },
        });
        record.as_object_mut().unwrap().extend(results.as_object().unwrap().clone());
        record
    }

    fn throughput(self, model: &Model, round: u32, rate: &str) -> Value {
        let offered = rate.parse().unwrap_or(f64::INFINITY);
        let seed = [round, u32::from(self.size), u32::from(self.pairs), model.frame as u32];
        let each = (self.capacity(model) * noise(&seed, 0.02) / f64::from(self.pairs)).min(offered);
        let flows: Vec<Value> = (0..self.pairs)
            .map(|flow| {
                let packets = 2.0 * each * noise(&[round, u32::from(flow), u32::from(self.pairs)], 0.03).min(1.0);
                json!({
                    "flow": flow,
                    "sent": {"packets": packets as u64, "bytes": 0, "refused": 0, "seconds": 2.0},
                    "received": {
                        "packets": packets as u64, "bytes": packets as u64 * u64::from(self.size), "duplicates": 0,
                        "reordered": 0, "changed": 0,
                    },
                })
            })
            .collect();
        let idle = if model.name == "millrace" && self.size == 64 { 0.0 } else { 0.2 };
        let reports = json!([{"role": "sender-receiver", "flows": flows, "idle": idle, "stalled": 0.0}]);
        self.record(model, round, rate, json!({ "reports": reports }))
    }

    fn latency(self, model: &Model, round: u32, rate: &str, load: f64) -> Value {
        let packets = f64::from(self.burst) * (model.frame + model.byte * f64::from(self.size));
        let p50 =
            (model.trip + 2.0 * packets + 0.4 * f64::from(self.size)) / (1.0 - 0.8 * load) * noise(&[round, 7], 0.04);
        let at = |factor: f64| p50 * (1.0 + (factor - 1.0) * (1.0 + 4.0 * load * load));
        let flow = json!({
            "flow": 0,
            "sent": {"packets": 200000, "bytes": 0, "refused": 0, "seconds": 2.0},
            "received": {"packets": 200000, "bytes": 12800000, "duplicates": 0, "reordered": 0, "changed": 0},
            "latency": {
                "min": p50 * 0.7, "mean": p50 * 1.03, "p50": p50, "p90": at(1.2), "p99": at(1.7), "p99_9": at(2.9),
                "p99_99": at(6.0), "max": at(20.0),
            },
        });
        let reports = json!([{"role": "client-server", "flows": [flow], "idle": 0.5, "stalled": 0.0}]);
        self.record(model, round, rate, json!({ "reports": reports }))
    }

    fn search(self, model: &Model, round: u32) -> Value {
        let found = self.capacity(model) * noise(&[round, u32::from(self.size)], 0.01);
        let trials =
            json!([{"rate": found, "seconds": 1.0, "loss": 0.0}, {"rate": found * 1.01, "seconds": 1.0, "loss": 0.02}]);
        let search =
            json!({"ndr": [found * 0.93, found * 0.94], "pdr": [found * 0.98, found * 0.99], "trials": trials});
        self.record(model, round, "search", json!({ "search": search }))
    }

    fn failed(self, model: &Model, round: u32, rate: &str, reason: &str) -> Value {
        self.record(model, round, rate, json!({ "error": reason }))
    }
}

/// Returns the runs of one round.
fn round(round: u32) -> Vec<Value> {
    let mut runs = Vec::new();
    for model in &MODELS {
        let is_kernel = model.name == "linux-bridge";
        let latency = |size, burst| Test { dimension: "latency", size, burst, ..PLAIN };
        runs.extend(SIZES.map(|size| Test { size, ..PLAIN }.throughput(model, round, "max")));
        for size in [64, 512, 1500] {
            runs.extend([1, 4, 16, 32, 64].map(|burst| latency(size, burst).latency(model, round, "10000", 0.0)));
        }
        if is_kernel {
            continue;
        }
        for rate in ["1000000", "5000000", "10000000", "15000000", "20000000"] {
            runs.push(PLAIN.throughput(model, round, rate));
            runs.push(Test { size: 1500, ..PLAIN }.throughput(model, round, rate));
        }
        for (pairs, size) in [(2, 64), (4, 64), (2, 1500), (4, 1500)] {
            let test = Test { pairs, size, ..PLAIN };
            runs.push(match (model.name, pairs, size) {
                ("millrace", 4, 1500) => test.failed(model, round, "max", "no packet came back within 20 s"),
                ("vpp", 4, 64) => test.failed(model, round, "max", "vpp ended: <out of buffers> & \"gone\""),
                _ => test.throughput(model, round, "max"),
            });
        }
        if model.name != "testpmd" {
            let remote = |size| Test { location: "remote", size, ..PLAIN };
            runs.extend(SIZES.map(|size| remote(size).throughput(model, round, "max")));
        }
        for size in [64, 1500] {
            runs.push(Test { size, ..PLAIN }.search(model, round));
        }
        let loads = [(10, "10% of ndr"), (50, "50% of ndr"), (90, "90% of ndr")];
        runs.extend(
            loads.map(|(percent, rate)| latency(64, 32).latency(model, round, rate, f64::from(percent) / 100.0)),
        );
    }
    let [.., bridge] = MODELS;
    for (technique, frame) in [("udp", 2950.0), ("udp-mmsg", 2440.0), ("raw", 2770.0), ("raw-mmsg", 2270.0)] {
        let model = Model { technique, frame, ..bridge };
        runs.push(Test { burst: 64, ..PLAIN }.throughput(&model, round, "1000000"));
    }
    runs
}

/// Returns all runs, two of which had processors far apart, or that moved.
pub fn runs() -> Vec<Value> {
    let mut runs: Vec<Value> = (0..ROUNDS).flat_map(round).collect();
    let far = json!({"nanoseconds": 181.0, "distance": "far"});
    runs[0]["distance"] = json!([far, far]);
    runs[1]["distance"][1] = far;
    runs
}

/// Writes a directory as `testbed run` does, with reasons for findings.
pub fn write(directory: &Path) {
    let lines: Vec<String> = runs().iter().map(|run| format!("{run}\n")).collect();
    let rig = json!({
        "cpu": "A Processor @ 2.60GHz", "cores": 2, "kernel": "6.1.0", "tsc_ghz": 2.6, "dpdk": "DPDK 22.11.11",
        "date": "2026-11-23T10:00:00Z", "commit": "0123abc", "command": "testbed run scenario.toml",
    });
    let note = "[[note]]\nfinding = \"vpp 1500B\"\ntext = \"VPP copies long frames with wider instructions.\"\n";
    let files = [
        ("runs.jsonl", lines.concat()),
        ("rig.json", rig.to_string()),
        ("scenario.toml", "# A scenario </script> of formulas\nrounds = 5\n".to_owned()),
        ("notes.toml", note.to_owned()),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
}
