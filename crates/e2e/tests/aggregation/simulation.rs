//! The simulator of service chains (docs/simulation.md) against Millrace itself: topology I of PA-Flow Section 6.2 with seven switches.
//!
//! ```text
//!   guest ─ A ═╗
//!   guest ─ B ═╩═ 1 ═╗
//!   guest ─ C ═╗     ╠═ i ═ sink
//!   guest ─ D ═╩═ 2 ═╝
//! ```
//!
//! Each switch is in a network namespace of its own, and cables of the kernel join them. Bursts pass one after the other, so how many
//! frames they leave in does not depend on the machine's speed.

use e2e::cable::lay_cable;
use e2e::cable::quiet_namespace;
use e2e::stream::{aggregating, aggregation};
use e2e::virtio::{Guest, Options};
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bursts of each guest.
const BURSTS: u64 = 10;

/// VLAN of all packets: their service chain.
const CHAIN: u16 = 100;

/// The switches, and the number of the one that each sends to. Number 7 is behind the sink.
const SWITCHES: [(&str, usize); 7] = [("A", 4), ("B", 4), ("C", 5), ("D", 5), ("1", 6), ("2", 6), ("i", 7)];

/// Links by stage, as ranges of [`SWITCHES`], whose links they are.
const STAGES: [std::ops::Range<usize>; 3] = [0..4, 4..6, 6..7];

/// By how much simulated and real counts may differ.
const MARGIN: f64 = 0.15;

/// Makes a port face the network.
fn towards_network(port: RawPort) -> RawPort {
    trunk(&[CHAIN.into()], aggregating(port))
}

/// Returns the configuration of a switch: all that comes leaves by `out`.
fn config(number: usize) -> RawFile {
    let (name, next) = SWITCHES[number];
    let inputs = (0..SWITCHES.len()).filter(|&other| SWITCHES[other].1 == number).map(|input| format!("in{input}"));
    let out = if name == "i" { sink("out") } else { af_packet("out", "out") };
    let mut names = vec!["out".to_owned()];
    names.extend(inputs);
    let mut ports = vec![towards_network(out)];
    ports.extend(names[1..].iter().map(|name| towards_network(af_packet(name, name))));
    if STAGES[0].contains(&number) {
        ports.push(trunk_of_all(vhost_user("nf")));
        names.push("nf".to_owned());
    }
    let station = RawStatic { vlan: i64::from(CHAIN).into(), ..stationed("02:00:00:00:02:01", "out") };
    let bridge = RawBridge { statics: vec![station.into()], ..bridge("br0", names) };
    file((ports, bridge, aggregation(number, &[(CHAIN, next)]), sleeper()))
}

fn packet() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 2, 1]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 2, 2]);
    bytes[12..14].copy_from_slice(&[0x81, 0x00]);
    bytes[14..16].copy_from_slice(&CHAIN.to_be_bytes());
    bytes[16..18].copy_from_slice(&[0x88, 0xb6]);
    bytes
}

fn sent(switch: &Millrace) -> (u64, u64) {
    let [_, sent] = switch.sides("out");
    (sent.packets, sent.frames)
}

/// Sends bursts of `packets` from each guest, and returns the frames on the links of each stage.
fn real(switches: &[Millrace], guests: &mut [Guest], packets: u64) -> Result<Vec<u64>> {
    let frames = || switches.iter().map(|switch| sent(switch).1).collect::<Vec<_>>();
    let before = frames();
    for _ in 0..BURSTS {
        for guest in &mut *guests {
            let last = &switches[6];
            let wanted = sent(last).0 + packets;
            guest.reap()?;
            for _ in 0..packets {
                assert!(guest.send(&[&packet()], 1)?);
            }
            guest.flush();
            wait_for("the burst to reach the sink", || (sent(last).0 == wanted).then_some(()));
        }
    }
    let after = frames();
    Ok(STAGES.map(|stage| stage.map(|n| after[n] - before[n]).sum()).into())
}

/// Builds the simulator, and returns its path.
fn simulator() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim");
    // Other tests may build it at the same time.
    let mut make = Command::new("flock");
    make.arg(sources.join("Makefile")).args(["make", "--silent", "--directory"]).arg(&sources);
    let output = make.output().expect("flock is part of util-linux");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "install the packages of crates/e2e/debian-packages.txt: {said}");
    sources.join("build/simulate")
}

/// Simulates the same, with the costs of a packet and a frame over AF_PACKET, and returns the frames on the links of each stage.
fn simulated(packets: u64) -> Vec<u64> {
    let mut scenario =
        "seed 1\nseconds 1\nmodel millrace\nghz 2.6\ncycles-round 2600\ncycles-packet 190\ncycles-frame 1780\n\
                        burst 32\noverhead 46\nentry 2\nalign 2\nlargest 1514\nsink sink\n"
            .to_owned();
    scenario.extend(SWITCHES.iter().map(|(name, _)| format!("node {name}\n")));
    let name = |number: usize| SWITCHES.get(number).map_or("sink", |(name, _)| name);
    scenario.extend(SWITCHES.iter().map(|(from, to)| format!("link {from} {}\n", name(*to))));
    // Rare bursts, at random times.
    let rate = packets * (BURSTS + 5);
    let source =
        |(name, _): &(&str, usize)| format!("source {name} pps={rate} train={packets} packets={}\n", packets * BURSTS);
    scenario.extend(SWITCHES[STAGES[0].clone()].iter().map(source));
    let mut run = Command::new(simulator()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    run.stdin.take().unwrap().write_all(scenario.as_bytes()).unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{scenario}");
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(counts["delivered"], packets * BURSTS * 4);
    let frames = |number: usize| counts["links"][number]["frames"].as_u64().unwrap();
    STAGES.map(|stage| stage.map(frames).sum()).into()
}

#[test]
fn switches_join_as_many_packets_as_simulated_ones() -> Result<()> {
    let namespaces = SWITCHES.iter().map(|_| quiet_namespace()).collect::<Result<Vec<Namespace>>>()?;
    for (from, &(_, to)) in SWITCHES.iter().enumerate().filter(|(_, (_, to))| *to < SWITCHES.len()) {
        lay_cable([&namespaces[from], &namespaces[to]], ["out", &format!("in{from}")])?;
    }
    let homes = SWITCHES.map(|_| Home::new());
    let start = |number: usize| homes[number].start_inside(&namespaces[number], config(number));
    let switches: Vec<Millrace> = (0..SWITCHES.len()).map(start).collect();
    let connect = |home: &Home| Options::new(home.socket("nf")).connect();
    let mut guests = homes[STAGES[0].clone()].iter().map(connect).collect::<Result<Vec<_>>>()?;
    for (switch, number) in switches.iter().zip(0..) {
        switch.wait_up(if STAGES[0].contains(&number) { &["out", "nf"] } else { &["out"] });
    }
    // One alone, one frame, two frames, and more than a worker takes at once.
    for packets in [1, 8, 30, 50] {
        let (real, simulated) = (real(&switches, &mut guests, packets)?, simulated(packets));
        for (stage, (&real, &simulated)) in real.iter().zip(&simulated).enumerate() {
            let apart = (real as f64 / simulated as f64 - 1.0).abs();
            assert!(apart <= MARGIN, "bursts of {packets}, stage {stage}: {real} frames, and {simulated} simulated");
        }
        println!("bursts of {packets}: {real:?} frames, {simulated:?} simulated");
    }
    for switch in switches {
        switch.none_dropped();
        switch.stop();
    }
    Ok(())
}
