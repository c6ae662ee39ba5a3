//! Ports come to a bridge and leave it, and nothing else there changes.

use super::*;
use crate::stats::LearningStats;
use packet::MacAddr;

fn guest(home: &Path, index: usize) -> PortSpec {
    let name = format!("p{index}");
    let settings = vhost_user::Settings::at(home.join(&name));
    PortSpec::new(name, Driver::VhostUser(settings))
}

/// Returns a bridge of these ports, with a worker for each of two of them.
fn bridged(ports: Vec<PortSpec>, learned_limit: u32) -> Spec {
    let bridge = BridgeSpec {
        name: "br".into(),
        ports: ports.iter().map(|port| port.name.clone()).collect(),
        ageing: Duration::from_secs(300),
        learned_limit,
        forwards_reserved: false,
        statics: vec![],
        flows: None,
    };
    Spec { ports, bridges: vec![bridge], ..Spec::default() }
}

/// Returns the address that was learned behind a port.
fn address(switch: &Switch, port: &str) -> Option<String> {
    switch.macs().into_iter().find(|entry| entry.port == port).map(|entry| entry.mac)
}

fn learning(switch: &Switch, port: &str) -> LearningStats {
    switch.snapshot().ports.into_iter().find(|stats| stats.name == port).and_then(|stats| stats.learning).unwrap()
}

/// A port that leaves is forgotten, one that takes its place has nothing of it, and the others' addresses and counters stay, whether
/// there is room in the table or not.
#[test]
fn a_port_that_comes_takes_over_nothing_and_changes_nothing() {
    let maker = |name: &str| {
        let mac = Some(MacAddr([2, 0, 0, 0, 0, name.as_bytes()[0]]));
        PortSpec::new(name, Driver::Generator(generator::Settings { size: 64, pace: pace(), frames: 0, mac }))
    };
    let spec = |names: &[&str]| bridged(names.iter().map(|name| maker(name)).chain([sink("s")]).collect(), 16);
    let switch = Switch::start(spec(&["a", "b", "c"])).unwrap();
    let learned = |port: &str| wait_for(port, || address(&switch, port));
    let [a, b, c] = ["a", "b", "c"].map(learned);
    let before = ["a", "c"].map(|port| learning(&switch, port));
    switch.change(spec(&["a", "c"])).unwrap();
    assert_eq!((address(&switch, "a"), address(&switch, "c")), (Some(a.clone()), Some(c.clone())));
    assert!(switch.macs().iter().all(|entry| entry.mac != b));
    // In the place of `b`, and then more than there is room for.
    for names in [&["a", "c", "d"][..], &["e", "a", "c", "d", "f", "g", "h"]] {
        switch.change(spec(names)).unwrap();
        let new = names.last().unwrap();
        assert!(![&a, &b, &c].contains(&&learned(new)));
        assert_eq!((learning(&switch, new).learned, learning(&switch, new).over_limit), (1, 0));
        assert_eq!((address(&switch, "a"), address(&switch, "c")), (Some(a.clone()), Some(c.clone())));
        let now = ["a", "c"].map(|port| learning(&switch, port));
        assert!(
            before.iter().zip(&now).all(|(before, now)| before.learned == now.learned && before.flooded <= now.flooded)
        );
    }
}

/// Neither the MAC table of a large bridge, nor queues that guests may ask for, are gone through for each port that comes.
#[test]
#[ignore = "for instruction counts, as in CONTRIBUTING.md"]
fn a_port_comes_to_a_thousand() {
    let home = tempfile::tempdir().unwrap();
    let ports = |count: usize| (0..count).map(|index| guest(home.path(), index)).collect::<Vec<_>>();
    let switch = Switch::start(bridged(ports(1000), 4096)).unwrap();
    for count in (1001..1011).chain([1000]) {
        switch.change(bridged(ports(count), 4096)).unwrap();
    }
}
