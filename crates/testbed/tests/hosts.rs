//! Short measurements between hosts of the kernel's, whose figures do not matter. They need root, two processors, huge pages and Debian's
//! packages iperf3, redis-server, redis-tools and openvswitch-switch-dpdk.

mod common;

use serde_json::Value;
use std::process::Command;

/// Runs a measurement with these arguments, and returns the values of a key in all rows.
fn figures(arguments: &[&str], key: &str) -> Vec<f64> {
    let out = tempfile::tempdir().unwrap();
    let mut measure = Command::new(env!("CARGO_BIN_EXE_testbed"));
    measure.args(arguments).arg("--millrace").arg(common::millrace()).arg("--out").arg(out.path());
    let output = measure.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.path().join("chart.svg").exists());
    let results = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    results["figures"].as_array().unwrap().iter().map(|row| row[key][0].as_f64().unwrap()).collect()
}

#[test]
fn a_stream_crosses_every_switch() {
    let found = figures(&["tcp", "--seconds", "1", "--rounds", "1", "--mtu", "1500"], "gbytes_per_cpu_s");
    assert!(found.len() == 4 && found.iter().all(|&value| value > 0.0), "{found:?}");
}

#[test]
fn redis_is_reached_over_every_switch_of_hosts() {
    let load = ["--lines", "veth,interfaces,taps,ovs", "--mtu", "9000", "--size", "64,20000", "--requests", "200"];
    let found = figures(&[&["redis", "--rounds", "1"][..], &load].concat(), "requests_per_s");
    assert!(found.len() == 16 && found.iter().all(|&value| value > 0.0), "{found:?}");
}
