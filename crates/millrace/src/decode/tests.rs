use super::*;
use capture::Writer;
use clap::Parser;
use packet::MacAddr;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::{Nfi, Planner, Template, encode};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Builds an aggregate of three packets, the last one with a VLAN tag.
fn aggregate(carrier: Carrier) -> Vec<u8> {
    let mut tagged = vec![0x66; 65];
    tagged[12..18].copy_from_slice(&[0x81, 0x00, 0x00, 0x64, 0x08, 0x00]);
    let packets = [vec![0x22; 60], vec![0x44; 61], tagged];
    let route = Route {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        routed: false,
        carrier,
    };
    let template = Template::new(&route, 1500).unwrap();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut planner = Planner::new();
    let plan = planner.plan(&[60, 61, 65], &[Nfi::new(7); 3], |_| template.room());
    let mut frame = vec![0; 1514];
    let len = encode::write(&plan, &plan.groups()[0], &template, &slices, &mut frame).unwrap();
    frame.truncate(len);
    frame
}

fn tunnel(destination_port: u16) -> Tunnel {
    let addresses = Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
    Tunnel { addresses, source_port: 49_159, destination_port, hop_limit: 64, checksum: Checksum::Computed }
}

/// Writes one aggregate of each kind, one of an unknown version, and a frame that is no aggregate.
fn capture(path: &Path) {
    let [source, destination] = [1, 2].map(|node| MacAddr([2, 0, 0, 0, 0, node]));
    let vxlan = Carrier::Vxlan { tunnel: tunnel(4789), vni: 77, source, destination };
    let mut later = aggregate(Carrier::Ethernet);
    later[14] = 2;
    let frames = [
        aggregate(Carrier::Udp(tunnel(50_261))),
        aggregate(vxlan),
        aggregate(Carrier::Ethernet),
        later,
        vec![0x88; 100],
    ];
    let mut writer = Writer::new(File::create(path).unwrap(), 1514).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        writer.write(Duration::from_secs(number as u64), frame).unwrap();
    }
}

fn output(arguments: &[&str]) -> String {
    let cli = crate::cli::Cli::parse_from([&["millrace", "decode"], arguments].concat());
    let crate::cli::Command::Decode(options) = cli.command else { panic!("not decode") };
    let mut out = Vec::new();
    run(&options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn aggregates_are_printed_with_their_packets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    capture(&path);
    let text = output(&[path.to_str().unwrap()]);
    for part in [
        "#1 at 0.000000, 240 bytes, 192.0.2.1 > 192.0.2.2, udp: 3 packets",
        "#2 at 1.000000, 262 bytes, 192.0.2.1 > 192.0.2.2, vxlan 77: 3 packets",
        "+48     60 bytes, 22:22:22:22:22:22 > 22:22:22:22:22:22, 0x2222",
        "65 bytes, 66:66:66:66:66:66 > 66:66:66:66:66:66, VLAN 100, 0x0800",
        "#3 at 2.000000, 212 bytes, ethernet: 3 packets",
        "#4 at 3.000000, 212 bytes, ethernet: unknown-version: aggregate version 2 is not known",
        "5 frames: 3 aggregates of 9 packets (3.00 each), 1 that are wrong, 1 others",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let json = output(&["--json", path.to_str().unwrap()]);
    let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[1]["vni"], &lines[1]["packets"][2]["vlan"]), (&77.into(), &100.into()));
    assert_eq!(lines[3]["rejected"]["reason"], "unknown-version");
    let other_port = output(&["--udp-port", "1", path.to_str().unwrap()]);
    assert!(other_port.contains("2 aggregates"), "{other_port}");
}

#[test]
fn a_truncated_file_is_decoded_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    capture(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 7);
    // The first frame is snapped.
    bytes[24 + 12] += 1;
    std::fs::write(&path, &bytes).unwrap();
    let options = DecodeOptions { file: path, udp_port: 50_261, vxlan_port: 4789, json: false };
    let mut out = Vec::new();
    let remarks = run(&options, &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("4 frames: 3 aggregates"));
    let offset = bytes.len() - 109;
    assert!(remarks[0].ends_with("(snapped): 1"), "{remarks:?}");
    let cut = format!("it is cut off: its last 109 bytes, from offset {offset} on, are not a whole packet");
    assert_eq!(remarks[1..], [cut]);
}

#[test]
fn a_file_that_is_no_capture_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    std::fs::write(&path, "no capture at all").unwrap();
    for file in [path, directory.path().join("nothing")] {
        let options = DecodeOptions { file, udp_port: 1, vxlan_port: 2, json: false };
        let error = run(&options, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("give a pcap or pcapng file"), "{error}");
    }
}

/// The dissector in `wireshark/`, run by tshark, agrees with this program.
#[test]
fn wireshark_agrees() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    capture(&path);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wireshark/millrace-aggregation.lua");
    let dissect = |fields: &[&str]| {
        let mut command = Command::new("tshark");
        command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(&path);
        command.args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
        command.args(fields.iter().flat_map(|field| ["-e", *field]));
        // Ignore the user's own settings.
        let output = command.env("HOME", directory.path()).output();
        let output = output.expect("tshark runs; it is in the Debian package tshark");
        let (text, said) =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).into();
        assert!(output.status.success() && !said.contains("Lua"), "{said}");
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    let rows = dissect(&["millrace.version", "millrace.number", "millrace.length", "vlan.id", "_ws.expert.message"]);
    assert_eq!(rows.len(), 5);
    for row in &rows[..3] {
        assert_eq!(row[..4], ["1", "3", "60,61,65", "100"], "{rows:?}");
    }
    assert_eq!((rows[3][0].as_str(), rows[3][1].as_str()), ("2", ""), "{rows:?}");
    assert_eq!(rows[3][4], "unknown version 2", "{rows:?}");
    assert_eq!(rows[4].concat(), "");
}
