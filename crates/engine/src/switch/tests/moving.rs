//! Queues move between workers, and outputs between one worker and several, while frames pass: none is lost, and none comes twice.

use super::*;
use crate::spec::{MirrorDirection, MirrorPoint, MirrorSpec};
use proptest::prelude::*;

/// Frames that each generator sends.
const FRAMES: u64 = 20_000;

/// Generators, of which the first two are patched with sinks, and the others in a bridge.
const MAKERS: [&str; 4] = ["g0", "g1", "g2", "g3"];

/// Sinks, of which the last two are in the bridge.
const TAKERS: [&str; 4] = ["s0", "s1", "s2", "s3"];

/// One of the specifications that take turns.
#[derive(Clone, Debug)]
struct Turn {
    /// Worker of each port.
    workers: Vec<usize>,
    idle: Vec<bool>,
    /// Whether the patches are crossed.
    is_crossed: bool,
    /// Whether another port is in the bridge, before or behind the others.
    other: Option<bool>,
    is_mirrored: bool,
}

fn turns() -> impl Strategy<Value = Turn> {
    let workers = prop::collection::vec(0..3usize, MAKERS.len() + TAKERS.len());
    let idle = prop::collection::vec(any::<bool>(), 1..4);
    (workers, idle, any::<bool>(), any::<Option<bool>>(), any::<bool>()).prop_map(
        |(workers, idle, is_crossed, other, is_mirrored)| Turn { workers, idle, is_crossed, other, is_mirrored },
    )
}

fn maker(name: &str) -> PortSpec {
    let pace = Pace { rate: 100_000, burst: 32 };
    PortSpec::new(name, Driver::Generator(generator::Settings { size: 64, pace, frames: FRAMES, mac: None }))
}

fn spec(turn: &Turn) -> Spec {
    let Turn { workers, idle, is_crossed, other, is_mirrored } = turn;
    let mut ports: Vec<_> = MAKERS.map(maker).into_iter().chain(TAKERS.map(sink)).collect();
    let mut members: Vec<String> = ["g2", "s2", "g3", "s3"].map(String::from).into();
    if let Some(is_first) = other {
        members.insert(if *is_first { 0 } else { members.len() }, "other".into());
        ports.push(sink("other"));
    }
    let mut mirrors = Vec::new();
    if *is_mirrored {
        let (direction, at) = (MirrorDirection::Both, MirrorPoint::Wire);
        ports.insert(0, sink("copies"));
        let from = ["g0", "s1", "s2"].map(String::from).into();
        mirrors.push(MirrorSpec { from, to: "copies".into(), direction, at });
    }
    let mut of_worker: Vec<_> =
        idle.iter().map(|&sleeps| worker(&[], if sleeps { Idle::Sleep } else { Idle::Backoff })).collect();
    let count = of_worker.len();
    for (port, of) in MAKERS.iter().chain(&TAKERS).zip(workers) {
        of_worker[of % count].queues.push(PortQueues::all(*port));
    }
    let [first, second] = if *is_crossed { ["s1", "s0"] } else { ["s0", "s1"] };
    Spec {
        ports,
        patches: vec![patch("g0", first), patch("g1", second)],
        bridges: vec![BridgeSpec {
            name: "br".into(),
            ports: members,
            ageing: Duration::from_secs(300),
            learned_limit: 64,
            forwards_reserved: false,
            statics: vec![],
            flows: None,
        }],
        mirrors,
        workers: of_worker,
        ..Spec::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_pass_while_queues_move(turns in prop::collection::vec(turns(), 2..8)) {
        let switch = Switch::start(spec(&turns[0])).unwrap();
        for turn in &turns[1..] {
            switch.reload(spec(turn)).unwrap();
        }
        let sent = |name| switch.port(name).queues[0].tx_packets;
        wait_for("all frames", || {
            let of_patches = sent("s0") + sent("s1") >= 2 * FRAMES;
            (of_patches && sent("s2") >= 2 * FRAMES && sent("s3") >= 2 * FRAMES).then_some(())
        });
        prop_assert_eq!([sent("s0") + sent("s1"), sent("s2"), sent("s3")], [2 * FRAMES; 3]);
        for name in TAKERS {
            prop_assert!(switch.port(name).drops.is_empty(), "{:?}", switch.port(name));
        }
    }
}
