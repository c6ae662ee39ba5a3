//! A configuration that changes all the time, with guests that are not affected.

use e2e::live::Live;
use e2e::virtio::Options;
use e2e::{poller, wait_for};
use engine::reload::Step;
use lab::millrace::config::*;

/// Returns a bridge with a guest at `a`, and `more` ports.
fn bridged(more: &[&str]) -> RawFile {
    let names: Vec<_> = ["a"].iter().chain(more).copied().collect();
    let ports: Vec<_> = names.iter().map(|name| vhost_user(name)).collect();
    file((ports, bridge("br0", names)))
}

/// Returns `config` with the frames of a port recorded.
fn recorded(mut config: RawFile, name: &str) -> RawFile {
    let port = config.ports.iter_mut().find(|port| port.name.iter().any(|other| **other == name));
    let port = port.expect("there is such a port");
    *port = RawPort { record_to: format!("{name}.pcap").into(), ..vhost_user(name) }.into();
    config
}

#[test]
fn endless_reloads_disconnect_no_guest_and_lose_no_frame() {
    let live = Live::new(bridged(&[]));
    let mut guest = Options::new(live.home.socket("a")).connect().unwrap();
    live.millrace.wait_up(&["a"]);
    let hello = [[0xff; 6], [2, 0, 0, 0, 0, 0x77], [0x88, 0xb5, 0, 0, 0, 0]].concat();
    let hello = [hello, vec![0; 60]].concat();
    assert!(guest.send(&[&hello], 1).unwrap());
    guest.flush();
    let knows = || live.millrace.macs().iter().any(|entry| entry.port == "a" && entry.mac.ends_with(":77"));
    wait_for("the guest's address to be learned", || knows().then_some(()));
    let reload = |more: &[&str], name: Option<&str>| {
        let config = file((bridged(more), patched("c", "d"), poller()));
        live.home.configure(match name {
            Some(name) => recorded(config, name),
            None => config,
        });
        let report = live.millrace.reload();
        assert_eq!(report.failed(), 0, "{report}");
        assert!(report.ports(Step::Reopened).is_empty() && knows(), "{report}");
    };
    live.during(|attack| {
        let more: [&[&str]; 4] = [&["x"], &["y", "x"], &["y"], &[]];
        let mut rounds = more.iter().cycle().zip(["a", "c", "d", "c"].iter().cycle());
        while attack.continues() {
            let (more, name) = rounds.next().unwrap();
            reload(more, Some(name));
            attack.strike();
        }
    });
    assert!(guest.is_connected());
    reload(&[], Some("c"));
    live.serves();
    reload(&[], None);
    let frames: Result<Vec<_>, _> = capture::Reader::open(&live.home.path("c.pcap")).unwrap().collect();
    assert!(!frames.unwrap().is_empty());
    live.finish();
}
