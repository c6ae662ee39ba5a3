//! A mirror comes and goes by reloads, and its copies are in a capture file.

use super::{Daemon, configure, text, wait_until};
use rustix::process::Signal;
use std::fs;

#[test]
fn a_mirror_comes_and_goes_by_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    let ports = "port = [{name='a', driver='generator', rate=10000}, {name='b', driver='sink'}, \
         {name='probe', driver='pcap', record='probe.pcap'}]\npatch = [{ports=['a', 'b']}]\n";
    let mirrored = format!("{ports}mirror = [{{from=['a'], to='probe'}}]\n");
    let mut daemon = Daemon::start(home, ports);
    let reload = |configuration: &str| {
        configure(&home.join("m.toml"), configuration);
        let done = daemon.ctl(&["reload"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let forwarding = || text(&daemon.ctl(&["ports"]).stdout);
    assert!(!forwarding().contains("mirror of a"), "{}", forwarding());
    let said = reload(&mirrored);
    assert!(said.contains("added mirror a -> probe"), "{said}");
    assert!(forwarding().contains("mirror of a"), "{}", forwarding());
    let file = home.join("probe.pcap");
    wait_until("frames in the file", || fs::metadata(&file).unwrap().len() > 10_000);
    let workers = text(&daemon.ctl(&["workers"]).stdout);
    assert!(workers.contains("mirror "), "{workers}");
    let said = reload(ports);
    assert!(said.contains("removed mirror a -> probe"), "{said}");
    // The file is complete when the switch has ended.
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    let copies = capture::Reader::open(&file).unwrap().map(Result::unwrap).count();
    assert!(copies > 100, "{copies}");
}
