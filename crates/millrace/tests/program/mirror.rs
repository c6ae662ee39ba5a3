//! A mirror comes and goes by reloads, and its copies are in a capture file.

use super::{end, files, start};
use lab::millrace::config::{Generator, file, mirror, patch, port, record, sink};
use rustix::process::Signal;
use std::fs;

#[test]
fn a_mirror_comes_and_goes_by_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    let source = port("a", Generator { rate: 10_000.into(), ..Generator::default() });
    let ports = file((source, sink("b"), record("probe", "probe.pcap"), patch("a", "b")));
    let mut switch = start(home, &ports);
    let reload = |mirror| {
        files(home).configure((&ports, mirror)).unwrap();
        switch.ctl("reload").unwrap()
    };
    let forwarding = || switch.ctl("ports").unwrap();
    assert!(!forwarding().contains("mirror of a"), "{}", forwarding());
    let said = reload(Some(mirror(["a"], "probe")));
    assert!(said.contains("added mirror a -> probe"), "{said}");
    assert!(forwarding().contains("mirror of a"), "{}", forwarding());
    let copies = home.join("probe.pcap");
    let written = || Ok((fs::metadata(&copies).unwrap().len() > 10_000).then_some(()));
    switch.wait_for("frames in the file", written).unwrap();
    let workers = switch.ctl("workers").unwrap();
    assert!(workers.contains("mirror "), "{workers}");
    let said = reload(None);
    assert!(said.contains("removed mirror a -> probe"), "{said}");
    // The file is complete when the switch has ended.
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    let copies = capture::Reader::open(&copies).unwrap().map(Result::unwrap).count();
    assert!(copies > 100, "{copies}");
}
