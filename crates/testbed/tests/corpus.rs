//! Captures go through Millrace along all paths, and differences are found.

mod common;

use capture::Writer;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const STATIONS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

/// Returns a frame of `len` bytes with an EtherType and this payload, which zeros follow.
fn frame([to, from]: [[u8; 6]; 2], ethertype: u16, payload: &[u8], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &ethertype.to_be_bytes(), payload].concat();
    frame.resize(len, 0);
    frame
}

/// Puts a frame into a VLAN.
fn tagged(vlan: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// Returns an IPv4 packet with a UDP datagram to this port, and the right header checksum.
fn udp([from, to]: [[u8; 4]; 2], port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() + 8) as u16;
    let mut header = [&[0x45, 0][..], &(len + 20).to_be_bytes(), &[0, 0, 0x40, 0, 64, 17, 0, 0], &from, &to].concat();
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    [&header, &[0x12, 0x34][..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat()
}

/// Returns an ARP request for this address.
fn arp(from: [u8; 6], target: [u8; 4]) -> Vec<u8> {
    let request = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &from, &[10, 0, 0, 1], &[0; 6], &target].concat();
    frame([[0xff; 6], from], 0x0806, &request, 60)
}

fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 262_144).unwrap();
    frames.iter().for_each(|frame| writer.write(Duration::ZERO, frame).unwrap());
    bytes
}

/// Returns a conversation between stations, of frames that each differ from all others.
fn conversation() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..60u8 {
        let (from, to) = (usize::from(number) % 3, usize::from(number / 3 + number + 1) % 3);
        let to = if from == to { (to + 1) % 3 } else { to };
        let pair = [STATIONS[to], STATIONS[from]];
        let packet = udp([[10, 0, 0, 1], [10, 0, 0, 2]], 53, &[number; 300]);
        let len = [60, 64, 342, 1514][usize::from(number) % 4];
        let plain = frame(pair, 0x0800, &packet[..packet.len().min(len - 14)], len);
        frames.push(if number % 5 == 0 { tagged(u16::from(number), &plain) } else { plain });
    }
    frames
}

/// Returns frames with something special each.
fn oddities() -> Vec<Vec<u8>> {
    let [a, b, _] = STATIONS;
    let ipv6 = |len| frame([b, a], 0x86dd, &[0x60, 0, 0, 0, 0, 4, 59, 64], len);
    let twice = tagged(5, &tagged(6, &frame([b, a], 0x0800, &[1], 60)));
    vec![
        ipv6(60),
        ipv6(9014),
        ipv6(8964),
        ipv6(65_557),
        frame([b, a], 0x0800, &[], 14),
        frame([b, a], 0x8100, &[], 14),
        tagged(4095, &frame([b, a], 0x0800, &[2], 60)),
        tagged(0, &frame([b, a], 0x0800, &[3], 60)),
        twice,
        arp(a, [10, 0, 0, 2]),
        // Not for bridges, too short, too long, and to its own sender.
        frame([[1, 0x80, 0xc2, 0, 0, 0x0e], a], 0x88cc, &[], 60),
        frame([b, a], 0x0800, &[], 13),
        ipv6(65_558),
        frame([a, a], 0x0800, &[4], 60),
    ]
}

/// Returns frames for addresses that switches would have if no frame had them, and that are wrong where they look into those.
fn for_switches() -> Vec<Vec<u8>> {
    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 1]];
    let (tunnel, node) = ([[192, 0, 2, 1], [192, 0, 2, 2]], [[198, 51, 100, 1], [198, 51, 100, 2]]);
    let inside = frame([STATIONS[0], STATIONS[1]], 0x0800, &[5], 60);
    let vxlan = [&[8, 0, 0, 0, 0, 0, 1, 0][..], &inside].concat();
    let mut frames: Vec<_> = [
        udp(tunnel, 4789, &vxlan),
        udp(tunnel, 4789, &vxlan[..10]),
        udp(node, 4789, &vxlan),
        udp(node, 50_261, &[1, 0, 0, 1, 0, 60]),
        udp(node, 50_261, &inside),
        udp(node, 50_261, &[]),
    ]
    .iter()
    .map(|packet| frame(MACS, 0x0800, packet, packet.len() + 14))
    .collect();
    frames.extend([tunnel[1], node[0], node[1]].map(|address| arp(STATIONS[2], address)));
    frames.push(frame(MACS, 0x88b5, &[1, 0, 0, 1], 60));
    frames
}

/// Runs `testbed corpus` with this program and these words.
fn run(folder: &Path, program: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.arg("corpus").arg(folder).arg("--millrace").arg(program).args(words);
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn every_frame_comes_out_of_every_path_that_can_carry_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let conversation = conversation();
    std::fs::create_dir(folder.path().join("lan")).unwrap();
    write("lan/a.pcap", &file(&[&conversation[..], &oddities(), &conversation[..7]].concat()));
    write("lan/b.pcap", &file(&for_switches()));
    let cut =
        file(&[conversation[0].clone(), frame([STATIONS[0], STATIONS[1]], 0x0800, &[6], 60), conversation[1].clone()]);
    write("cut.pcap", &cut[..cut.len() - 5]);
    write("empty.pcap", &file(&[]));
    write("notes.txt", b"these are captures of the laboratory");

    let output = run(folder.path(), &common::millrace(), &["--json"]);
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["equal"], true);
    let distinct = (conversation.len() + oddities().len() + for_switches().len() + 1) as u64;
    assert_eq!((&report["frames"], &report["distinct"]), (&(distinct + 7 + 1).into(), &distinct.into()));
    let files: Vec<_> =
        report["files"].as_array().unwrap().iter().map(|file| (&file["path"], &file["distinct"])).collect();
    let wanted = [("cut.pcap", 2), ("empty.pcap", 0), ("lan/a.pcap", 73), ("lan/b.pcap", 10), ("notes.txt", 0)];
    assert_eq!(
        files,
        wanted
            .map(|(path, distinct)| (json!(path), json!(distinct)))
            .each_ref()
            .map(|(path, distinct)| (path, distinct))
    );
    let problems: Vec<_> = report["files"].as_array().unwrap().iter().map(|file| file["problem"].is_string()).collect();
    assert_eq!(problems, [true, false, false, false, true]);

    let dropped = [
        ("patch", json!({ "runt": 1, "too-long": 1 })),
        ("bridge", json!({ "hairpin": 1, "reserved": 1, "runt": 1, "too-long": 1 })),
        ("flows", json!({ "runt": 1, "too-long": 1 })),
        // Of 9014, 65557 and 65558 bytes.
        ("vxlan", json!({ "runt": 1, "too-long": 3 })),
        // With a tag, 65557 bytes are too long.
        ("aggregation", json!({ "runt": 1, "too-long": 2 })),
    ];
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), dropped.len());
    for (path, (name, dropped)) in paths.iter().zip(dropped) {
        assert_eq!(
            (&path["path"], &path["dropped"], &path["sent"]),
            (&name.into(), &dropped, &distinct.into()),
            "{path:#}"
        );
        let all: u64 = dropped.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!((&path["equal"], &path["different"]), (&(distinct - all).into(), &0.into()), "{path:#}");
        let joined = path["joined"].as_u64().unwrap();
        assert_eq!(joined > 0, name == "aggregation", "{path:#}");
    }
}

#[test]
fn damage_by_a_switch_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.pcap"), file(&conversation())).unwrap();
    // A switch that loses and changes frames that come from one guest.
    let bad = folder.path().join("millrace");
    let script = "#!/bin/sh\nfor word; do configuration=$word; done\n\
        sed -i 's/^name = \"left\"$/&\\nfault = { drop = 0.2, corrupt = 0.2 }/' \"$configuration\"\nexec MILLRACE \"$@\"\n";
    std::fs::write(&bad, script.replace("MILLRACE", common::millrace().to_str().unwrap())).unwrap();
    std::fs::set_permissions(&bad, std::fs::Permissions::from_mode(0o755)).unwrap();

    let captures = folder.path().join("a.pcap");
    let output = run(&captures, &bad, &["--paths", "patch", "--json"]);
    let report = report(&output);
    assert_eq!((output.status.code(), &report["equal"]), (Some(1), &false.into()), "{report:#}");
    let path = &report["paths"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{path:#}"));
    let [changed, lost] = ["changed", "lost"].map(|kind| number(&path["kinds"][kind]));
    assert!(changed > 0 && lost > 0, "{path:#}");
    assert_eq!(number(&path["sent"]), number(&path["equal"]) + changed + lost, "{path:#}");
    assert_eq!(path["miscounted"], json!({ "injected": { "counted": lost, "missing": 0 } }));
    let differences = path["differences"].as_array().unwrap();
    assert_eq!(differences.len() as u64, changed + lost);
    for difference in differences {
        assert_eq!(difference["sent"]["file"], "a.pcap");
        assert_eq!(difference["at"].is_u64(), difference["kind"] == "changed", "{difference:#}");
        assert_eq!(difference["came"].is_object(), difference["kind"] == "changed", "{difference:#}");
    }
    let output = run(&captures, &bad, &["--paths", "patch"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Along patch:\n") && text.ends_with("There are differences.\n"), "{text}");
}

#[test]
fn a_folder_without_frames_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "these are captures of the laboratory").unwrap();
    let output = run(folder.path(), &common::millrace(), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("has no capture with a frame; notes.txt: it is neither"),
        "{said}"
    );
}
