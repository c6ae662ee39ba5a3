//! A short measurement of ports of Millrace and of Open vSwitch, whose figures do not matter. It needs root, two processors, huge pages
//! and Debian's package openvswitch-switch-dpdk.

mod common;

use serde_json::Value;
use std::process::Command;

#[test]
fn ports_of_both_switches_are_measured() {
    let out = tempfile::tempdir().unwrap();
    let mut measure = Command::new(env!("CARGO_BIN_EXE_testbed"));
    measure.args(["ports", "--ports", "10", "--guests", "4", "--rounds", "1", "--millrace"]).arg(common::millrace());
    let output = measure.arg("--out").arg(out.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let results = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let figures = results["figures"].as_array().unwrap();
    let of = |kind: &'static str| figures.iter().filter(move |row| row["measured"] == kind);
    assert_eq!(["calls", "guests", "rounds"].map(|kind| of(kind).count()), [3, 2, 1], "{results}");
    let positive = |value: &Value| value[0].as_f64().is_some_and(|value| value > 0.0);
    assert!(of("calls").all(|row| positive(&row["add_p50_ms"]) && positive(&row["del_p99_ms"])), "{results}");
    assert!(of("calls").all(|row| row["frames"][0].as_u64() > Some(0)), "{results}");
    assert!(of("guests").all(|row| positive(&row["start_ms"]) && positive(&row["connected_mib"])), "{results}");
    assert!(of("rounds").all(|row| positive(&row["alone_ns"])), "{results}");
    assert!(out.path().join("chart.svg").exists());
}
