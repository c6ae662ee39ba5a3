//! Counters of a port that a reload opens again.

use engine::Switch;
use engine::port::{generator, sink};
use engine::reload::Step;
use engine::spec::{Driver, Pace, PortSpec, Spec};
use engine::stats::PortStats;
use std::time::{Duration, Instant};

/// Returns a switch's ports: a generator of frames of this size, which all go to a sink, and a port that drops what it makes.
fn spec(size: u32, count: u64) -> Spec {
    let pace = Pace { rate: 100_000, burst: 1 };
    let source = |name: &str| {
        let settings = generator::Settings { size, pace, frames: count, mac: None };
        PortSpec::new(name, Driver::Generator(settings))
    };
    let sink = PortSpec::new("to", Driver::Sink(sink::Settings));
    let patches = vec![["from".into(), "to".into()]];
    Spec { ports: vec![source("from"), sink, source("alone")], patches, ..Spec::default() }
}

fn wait_for(switch: &Switch, name: &str, holds: impl Fn(&PortStats) -> bool) {
    let began = Instant::now();
    let port = || switch.snapshot().ports.into_iter().find(|port| port.name == name).unwrap();
    while !holds(&port()) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", port());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn counters_survive_reopening_a_port() {
    let switch = Switch::start(spec(100, 300)).unwrap();
    let received =
        |frames, bytes| move |port: &PortStats| (port.queues[0].rx_packets, port.queues[0].rx_bytes) == (frames, bytes);
    let dropped = |frames| move |port: &PortStats| port.drops.get("unconnected") == Some(&frames);
    wait_for(&switch, "from", received(300, 30_000));
    wait_for(&switch, "alone", dropped(300));
    let actions = switch.reload(spec(200, 100)).unwrap();
    for name in ["from", "alone"] {
        assert!(actions.iter().any(|action| action.name == name && action.step == Step::Reopened), "{actions:?}");
    }
    wait_for(&switch, "from", received(400, 50_000));
    wait_for(&switch, "alone", dropped(400));
    // One that was removed in between starts from zero.
    let mut without = spec(200, 100);
    without.ports.pop();
    switch.reload(without).unwrap();
    switch.reload(spec(200, 100)).unwrap();
    wait_for(&switch, "alone", dropped(100));
    wait_for(&switch, "from", received(400, 50_000));
}
