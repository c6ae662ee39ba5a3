//! Replays of files that are cut off, snapped, or of another kind than their port can send.

use super::{ctl, files, millrace, start, text};
use lab::millrace::config::{Pcap, RawFile, file, patch, port, record, replay, sink};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Returns a port `r` that replays this file to a sink `s`, which is open before it.
fn replayed(name: &str) -> RawFile {
    file((sink("s"), replay("r", name), patch("r", "s")))
}

/// Returns a classic file of packets of these lengths, of which the second is snapped.
fn packets(lengths: &[usize]) -> Vec<u8> {
    let mut bytes = capture::file_header(262_144).to_vec();
    for (number, &length) in lengths.iter().enumerate() {
        let mut header = capture::packet_header(Duration::ZERO, length as u32);
        header[12] += u8::from(number == 1);
        bytes.extend(header);
        bytes.extend(vec![0x11; length]);
    }
    bytes
}

/// Returns how many packets tcpdump reads.
fn tcpdump(path: &Path) -> u64 {
    let output = Command::new("tcpdump").args(["-n", "-t", "--count", "-r"]).arg(path).output();
    let output = output.expect("tcpdump runs; it is in the Debian package tcpdump");
    text(&output.stdout).split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn skipped_packets_are_counted_and_reported() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("in.pcap");
    let mut bytes = packets(&[60, 61, 13, 14, 65_558, 0, 1514]);
    bytes.truncate(bytes.len() - 100);
    fs::write(&path, &bytes).unwrap();
    let cut =
        format!("it is cut off: its last 1430 bytes, from offset {} on, are not a whole packet", bytes.len() - 1430);
    let remarks = ["longer than 65557): 3", "(snapped): 1", &cut];

    files(home.path()).configure(replayed("in.pcap")).unwrap();
    let checked = millrace(&["check", files(home.path()).configuration.to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
    let mut switch = start(home.path(), replayed("in.pcap"));
    let port = switch.counted("r", 3, 0).unwrap();
    assert_eq!((port.0.up, tcpdump(&path)), (true, 6), "{port:?}");
    switch.counted("s", 0, 3).unwrap();
    let shown = switch.ctl("ports").unwrap();
    for remark in remarks {
        switch.wait_said(0, remark).unwrap();
        assert!(shown.contains(remark) && port.0.detail.contains(remark), "no {remark:?} in {shown}");
        // Wrapped lines are joined.
        assert!(text(&checked.stderr).contains(remark), "no {remark:?} in {}", text(&checked.stderr));
    }
    assert_eq!(switch.drops().unwrap()["r"]["queue"], [("not-a-frame".to_owned(), 3)].into());
}

#[test]
fn obsolete_packets_are_replayed_as_others() {
    let home = tempfile::tempdir().unwrap();
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes(), &length, body, &length].concat()
    };
    let section = block(0x0a0d_0d0a, &[&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    let interface = block(1, &[1, 0, 0, 0, 0, 0, 4, 0]);
    let lengths = [60u32, 60].map(u32::to_le_bytes).concat();
    let packet = |number| block(2, &[&[0, 0, 0, 0][..], &[0; 8], &lengths, &[number; 60]].concat());
    fs::write(home.path().join("in.pcapng"), [section, interface, packet(1), packet(2)].concat()).unwrap();
    assert_eq!(tcpdump(&home.path().join("in.pcapng")), 2);
    let (keys, out) = (Pcap { replay: "in.pcapng".into(), ..Pcap::default() }, record("s", "out.pcap"));
    let mut switch = start(home.path(), file((out, port("r", keys), patch("r", "s"))));
    switch.counted("s", 0, 2).unwrap();
    switch.stop().unwrap();
    let frames = capture::Reader::open(&home.path().join("out.pcap")).unwrap().map(|frame| frame.unwrap().bytes);
    assert_eq!(frames.collect::<Vec<_>>(), [vec![1; 60], vec![2; 60]]);
}

#[test]
fn a_file_that_is_being_recorded_is_replayed_when_it_is_done() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let path = one.path().join("x.pcap");
    fs::write(one.path().join("in.pcap"), packets(&[60; 5])).unwrap();
    let keys = Pcap { replay: "in.pcap".into(), record: "x.pcap".into(), ..Pcap::default() };
    let mut first = start(one.path(), file((port("p", keys), lab::millrace::config::loopback("l"), patch("p", "l"))));
    first.counted("p", 5, 5).unwrap();
    let second = start(other.path(), replayed(path.to_str().unwrap()));
    let why = format!("cannot replay {}: process {} has it open", path.display(), first.daemon.pid());
    let down = || Ok(second.port("r")?.0.detail.contains(&why).then_some(()));
    second.wait_for(&why, down).unwrap();
    assert!(text(&ctl(&second, &["ports"]).stdout).contains("down"));
    first.stop().unwrap();
    second.counted("s", 0, 5).unwrap();
    assert_eq!(tcpdump(&path), 5);
}
