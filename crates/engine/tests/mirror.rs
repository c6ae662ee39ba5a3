//! Tests of mirrors from end to end: the copies that a port gets, compared with the frames that pass.

use engine::Switch;
use engine::port::{generator, pcap, sink, vhost_user};
use engine::reload::Step;
use engine::spec::{
    Driver, Idle, MirrorDirection, MirrorPoint, MirrorSpec, Pace, PortQueues, PortSpec, Spec, WorkerSpec,
};
use engine::stats::PortStats;
use packet::MacAddr;
use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Frames of a replay: several bursts, and a part of one.
const FRAMES: usize = 500;

fn frames() -> Vec<Vec<u8>> {
    let frame = |number: usize| {
        let mut bytes = vec![number as u8; [60, 61, 200, 700, 1400][number % 5]];
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        bytes[12..20].copy_from_slice(&[&[0x88, 0xb5][..], &(number as u32).to_be_bytes(), &[0, 0]].concat());
        bytes
    };
    (0..FRAMES).map(frame).collect()
}

fn file(home: &Path, name: &str) -> PathBuf {
    home.join(name).with_extension("pcap")
}

/// Returns a port that replays these frames once.
fn replay(home: &Path, name: &str, frames: &[Vec<u8>]) -> PortSpec {
    let path = file(home, name);
    let mut writer = capture::Writer::new(std::fs::File::create(&path).unwrap(), 65_535).unwrap();
    frames.iter().for_each(|frame| writer.write(Duration::ZERO, frame).unwrap());
    PortSpec::new(
        name,
        Driver::Pcap(pcap::Settings { replay: Some(path), record: None, repeat: false, pace: Pace::default() }),
    )
}

/// Returns a port that writes its frames to a file.
fn probe(home: &Path, name: &str) -> PortSpec {
    let record = Some(file(home, name));
    PortSpec::new(name, Driver::Pcap(pcap::Settings { replay: None, record, repeat: false, pace: Pace::default() }))
}

/// Returns the frames that a probe got. The switch must have ended.
fn got(home: &Path, name: &str) -> Vec<Vec<u8>> {
    capture::Reader::open(&file(home, name)).unwrap().map(|frame| frame.unwrap().bytes).collect()
}

fn sink(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::Sink(sink::Settings))
}

fn mirror(from: &[&str], to: &str, direction: MirrorDirection, at: MirrorPoint) -> MirrorSpec {
    MirrorSpec { from: from.iter().map(|name| (*name).to_owned()).collect(), to: to.into(), direction, at }
}

fn patch(a: &str, b: &str) -> [String; 2] {
    [a.into(), b.into()]
}

fn port(switch: &Switch, name: &str) -> PortStats {
    switch.snapshot().ports.into_iter().find(|port| port.name == name).unwrap()
}

fn sent(switch: &Switch, name: &str) -> u64 {
    port(switch, name).queues.iter().map(|queue| queue.tx_packets).sum()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_frame_that_enters_or_leaves_is_copied_once() {
    use MirrorDirection::{Both, In, Out};
    let home = tempfile::tempdir().unwrap();
    let (home, frames) = (home.path(), frames());
    let mirrors = vec![
        mirror(&["source"], "entered", In, MirrorPoint::Wire),
        mirror(&["sink"], "left", Out, MirrorPoint::Forward),
        mirror(&["source", "sink"], "passed", Both, MirrorPoint::Wire),
        mirror(&["source"], "nothing", Out, MirrorPoint::Wire),
    ];
    let probes = mirrors.iter().map(|mirror| probe(home, &mirror.to));
    let ports = [replay(home, "source", &frames), sink("sink")].into_iter().chain(probes).collect();
    let spec = Spec { ports, patches: vec![patch("source", "sink")], mirrors, ..Spec::default() };
    let switch = Switch::start(spec).unwrap();
    wait_for("the replay", || sent(&switch, "sink") == FRAMES as u64);
    assert_eq!(["entered", "left", "passed"].map(|name| sent(&switch, name) as usize), [FRAMES, FRAMES, 2 * FRAMES]);
    assert_eq!(port(&switch, "passed").forwarding, "mirror of source, sink");
    let stages = switch.snapshot().workers[0].stage_cycles_per_packet.clone();
    assert!(stages.keys().eq(["forward", "mirror", "receive", "recycle"]), "{stages:?}");
    drop(switch);
    assert_eq!((got(home, "entered"), got(home, "left")), (frames.clone(), frames.clone()));
    let mut passed = got(home, "passed");
    passed.sort();
    let mut twice = [frames.clone(), frames].concat();
    twice.sort();
    assert_eq!(passed, twice);
    assert!(got(home, "nothing").is_empty());
}

fn end(own: u8, other: u8) -> TunnelEnd {
    let addresses = Addresses::V4 { source: [192, 0, 2, own].into(), destination: [192, 0, 2, other].into() };
    let (source, destination) = ([2, 0, 0, 0, 0, own], [2, 0, 0, 0, 0, other]);
    let checksum = Checksum::Computed;
    let endpoints = Endpoints {
        source: source.into(),
        destination: destination.into(),
        addresses,
        port: 4789,
        vni: 100,
        hop_limit: 64,
        checksum,
    };
    TunnelEnd::new(&endpoints, 2000).unwrap()
}

/// Returns frames as an end of a tunnel sends them.
fn encapsulated(end: &TunnelEnd, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let encapsulate = |frame: &Vec<u8>| {
        let mut headers = end.headers();
        end.complete(&mut headers, &frame[..]);
        [&headers[..], frame].concat()
    };
    frames.iter().map(encapsulate).collect()
}

#[test]
fn a_mirror_sees_both_sides_of_a_tunnel() {
    use MirrorDirection::{In, Out};
    use MirrorPoint::{Forward, Wire};
    let home = tempfile::tempdir().unwrap();
    let (home, frames) = (home.path(), frames());
    let (there, back) = (encapsulated(&end(1, 2), &frames), encapsulated(&end(2, 1), &frames));
    let mirrors = vec![
        mirror(&["near"], "out-wire", Out, Wire),
        mirror(&["near"], "out-forward", Out, Forward),
        mirror(&["far"], "in-wire", In, Wire),
        mirror(&["far"], "in-forward", In, Forward),
    ];
    let probes = mirrors.iter().map(|mirror| probe(home, &mirror.to));
    let tunnel = |port: PortSpec| PortSpec { vxlan: Some(end(1, 2)), ..port };
    let ends =
        [replay(home, "inside", &frames), tunnel(sink("near")), tunnel(replay(home, "far", &back)), sink("taken")];
    let ports = ends.into_iter().chain(probes).collect();
    let patches = vec![patch("inside", "near"), patch("far", "taken")];
    let switch = Switch::start(Spec { ports, patches, mirrors, ..Spec::default() }).unwrap();
    wait_for("both replays", || ["near", "taken"].iter().all(|name| sent(&switch, name) == FRAMES as u64));
    drop(switch);
    let all = ["out-wire", "out-forward", "in-wire", "in-forward"].map(|name| got(home, name));
    assert_eq!(all, [there, frames.clone(), back, frames]);
}

#[test]
fn copies_without_room_are_dropped_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let nobody = Driver::VhostUser(vhost_user::Settings::at(home.path().join("probe.sock")));
    let ports = vec![replay(home.path(), "source", &frames()), sink("sink"), PortSpec::new("probe", nobody)];
    let mirrors = vec![mirror(&["source", "sink"], "probe", MirrorDirection::Both, MirrorPoint::Wire)];
    let switch = Switch::start(Spec { ports, patches: vec![patch("source", "sink")], mirrors, ..Spec::default() });
    let switch = switch.unwrap();
    wait_for("the replay", || sent(&switch, "sink") == FRAMES as u64);
    let probe = port(&switch, "probe");
    assert_eq!(probe.drops, [("down".to_owned(), 2 * FRAMES as u64)].into());
    assert_eq!(probe.stage_drops, [("mirror".to_owned(), probe.drops)].into());
    assert!(["source", "sink"].iter().all(|name| port(&switch, name).drops.is_empty()));
}

/// Returns two endless streams, each with a worker, and a port for copies.
fn streams(mirrors: Vec<MirrorSpec>) -> Spec {
    let pace = Pace { rate: 50_000, burst: 1 };
    let makes = |name: &str| {
        PortSpec::new(
            name,
            Driver::Generator(generator::Settings {
                size: 64,
                pace,
                frames: 0,
                mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
            }),
        )
    };
    let worker = |ports: [&str; 2]| WorkerSpec {
        idle: Idle::Backoff,
        queues: ports.iter().map(|port| PortQueues::all(*port)).collect(),
        ..WorkerSpec::default()
    };
    Spec {
        ports: vec![makes("a"), sink("b"), makes("c"), sink("d"), sink("probe"), sink("other")],
        patches: vec![patch("a", "b"), patch("c", "d")],
        mirrors,
        workers: vec![worker(["a", "b"]), worker(["c", "d"])],
        ..Spec::default()
    }
}

#[test]
fn a_mirror_of_several_workers_comes_changes_and_goes_while_frames_pass() {
    let wanted = |direction| streams(vec![mirror(&["a", "d"], "probe", direction, MirrorPoint::Wire)]);
    let switch = Switch::start(streams(vec![])).unwrap();
    let passes = |names: &[&str]| {
        let before: Vec<_> = names.iter().map(|name| sent(&switch, name)).collect();
        let went_on = || names.iter().zip(&before).all(|(name, before)| sent(&switch, name) > before + 1000);
        wait_for("frames", went_on);
    };
    let reload = |spec: Spec| -> Vec<String> {
        let actions = switch.reload(spec).unwrap();
        actions.iter().filter(|action| action.step != Step::Kept).map(|action| action.to_string()).collect()
    };
    passes(&["b", "d"]);
    assert_eq!(sent(&switch, "probe"), 0);
    assert_eq!(reload(wanted(MirrorDirection::Both)), ["added mirror a, d -> probe"]);
    passes(&["b", "d", "probe"]);
    assert_eq!(reload(wanted(MirrorDirection::Out)), ["changed mirror a, d -> probe (direction)"]);
    passes(&["b", "d", "probe"]);
    assert_eq!(reload(streams(vec![])), ["removed mirror a, d -> probe"]);
    let copied = sent(&switch, "probe");
    passes(&["b", "d"]);
    assert_eq!(sent(&switch, "probe"), copied);
    // A port that was mirrored gets copies, and is not mirrored any more.
    reload(streams(vec![mirror(&["probe"], "other", MirrorDirection::Both, MirrorPoint::Wire)]));
    reload(wanted(MirrorDirection::In));
    passes(&["b", "d", "probe"]);
    assert_eq!(sent(&switch, "other"), 0);
    assert!(switch.snapshot().ports.iter().all(|port| port.drops.is_empty()), "{:?}", switch.snapshot().ports);
}
