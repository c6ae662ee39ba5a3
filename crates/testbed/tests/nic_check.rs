//! Checks of devices in software, whose other ends are made here. They need root, for network namespaces.

mod common;

use lab::dpdk::plugin;
use lab::millrace::config::{af_packet, loopback, patch, sleeper};
use lab::millrace::{Files, Start};
use lab::netns::{Namespace, cable};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Checks a device in a namespace, or in one that the check makes; returns the report, and whether nothing was wrong.
fn check(inside: Option<&Namespace>, arguments: &[&str]) -> (Value, bool) {
    let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let mut command = inside.map_or_else(|| Command::new(program), |namespace| namespace.command(program));
    let programs = plugin::programs().unwrap();
    let plugin = plugin::built("port", "libmillrace_dpdk.so", &programs).unwrap();
    command.args(["nic-check", "--json", "--frames", "2000", "--guests", "2", "--size", "1514", "--seconds", "0.2"]);
    // What is certain to come may be late on a busy machine.
    if !arguments.contains(&"--patience") {
        command.args(["--patience", "120"]);
    }
    command.args(arguments).arg("--millrace").arg(common::millrace()).env("MILLRACE_DPDK_PLUGIN", plugin);
    let output = command.output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))), output.status.success())
}

/// Returns the answer to a question, and what was seen.
fn answer<'r>(report: &'r Value, question: &str) -> (&'r str, &'r str) {
    let mut answers = report["answers"].as_array().unwrap().iter();
    let found = answers.find(|answer| answer["question"] == question).unwrap();
    (found["answer"].as_str().unwrap(), found["seen"].as_str().unwrap())
}

/// Checks that frames went both ways in place, and that guests left no trace.
fn all_is_well((report, is_fine): &(Value, bool), driver: &str) {
    assert!(is_fine, "{report:#}");
    assert_eq!(report["driver"], driver);
    for question in ["opens", "link", "mapped", "receives-in-place", "sends-in-place", "bytes-right", "buffers-back"] {
        assert_eq!(answer(report, question).0, "yes", "{question} in {report:#}");
    }
    assert_eq!(answer(report, "memory-untouched").0, "yes", "{report:#}");
    assert_eq!(answer(report, "iommu").0, "not-applicable");
    let drains = report["drains"].as_array().unwrap();
    assert!(drains.len() == 2 && drains.iter().all(|drain| drain["flowed"] == true), "{drains:?}");
    assert!(report["machine"]["dpdk"].as_str().is_some_and(|version| version.starts_with("DPDK ")), "{report:#}");
}

#[test]
fn af_packet_is_checked_over_a_cable_of_its_own() {
    let checked = check(None, &["net_af_packet0", "--rounds", "1"]);
    all_is_well(&checked, "net_af_packet");
    let report = &checked.0;
    assert_eq!(report["drains"][0]["stopped"], Value::Null, "it keeps no buffers");
    let rate = &report["rates"]["rows"][0];
    // How many frames pass in this time, the machine decides.
    assert_eq!((&rate["bytes"], &rate["copied"]["in_place"]), (&1514.into(), &0.0.into()), "{rate}");
    assert!(rate["mapped"].is_object(), "{rate}");
    assert!(answer(report, "faster").1.contains("at 1514 bytes"), "{report:#}");
}

#[test]
fn a_tap_has_to_be_closed_to_end_loans() {
    let checked = check(None, &["net_tap0", "--rounds", "0"]);
    all_is_well(&checked, "net_tap");
    let (report, _) = checked;
    assert_eq!(report["drains"][1]["stopped"], "the device was closed");
    assert_eq!(answer(&report, "faster").0, "open");
}

#[test]
fn frames_come_back_from_another_machine_or_from_another_device() {
    let [here, there] = [0, 1].map(|_| Namespace::create().unwrap_or_else(|error| panic!("as root: {error}")));
    cable([(&here, "near"), (&there, "far")]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let files = Files::named(directory.path(), "other");
    files.configure((af_packet("cable", "far"), loopback("back"), patch("cable", "back"), sleeper())).unwrap();
    let other = Start::new(&common::millrace()).inside(&there).start(files).unwrap();
    other.wait_up(&["cable"]).unwrap();
    let device = "net_af_packet0,iface=near";
    let checked = check(Some(&here), &[device, "--looped", "--rounds", "0"]);
    all_is_well(&checked, "net_af_packet");
    drop(other);

    here.run("ip", &["link", "add", "one", "type", "veth", "peer", "name", "two"]).unwrap();
    for interface in ["one", "two"] {
        here.run("ip", &["link", "set", interface, "addrgenmode", "none", "arp", "off", "up"]).unwrap();
    }
    let peer = ["--peer", "net_af_packet1,iface=two"];
    let checked = check(Some(&here), &[&["net_af_packet0,iface=one", "--rounds", "0"], &peer[..]].concat());
    all_is_well(&checked, "net_af_packet");
    assert_eq!(checked.0["other_end"], "the device net_af_packet1,iface=two");
}

#[test]
fn what_was_not_seen_is_open() {
    let namespace = Namespace::create().unwrap_or_else(|error| panic!("as root: {error}"));
    let (report, is_fine) = check(Some(&namespace), &["net_af_packet0,iface=lo"]);
    assert!(is_fine, "{report:#}");
    for question in ["receives-in-place", "sends-in-place", "bytes-right", "faster"] {
        let (answer, seen) = answer(&report, question);
        assert!(answer == "open" && seen.contains("--peer"), "{question} in {report:#}");
    }
    let (back, seen) = answer(&report, "buffers-back");
    assert!(back == "yes" && seen.contains("2 got no frames"), "{report:#}");
    assert_eq!(answer(&report, "memory-untouched").0, "open", "{report:#}");

    let (report, is_fine) = check(Some(&namespace), &["net_af_packet0,iface=nowhere", "--patience", "3"]);
    let (opens, why) = answer(&report, "opens");
    assert!(!is_fine && opens == "no" && why.contains("No such device"), "{report:#}");
    assert_eq!(answer(&report, "buffers-back"), ("open", "the port is down"));
    assert_eq!(report["warnings"].as_object().unwrap().len(), 0, "the answer has the words: {report:#}");
}
