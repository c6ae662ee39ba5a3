//! The demonstration shows its table, and loses no frame.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_payload_comes_back_right() {
    let demo = |options: &[&str]| {
        let output = Command::new(e2e::program()).args(["demo", "--seconds", "0.5"]).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = demo(&[]);
    assert!(shown.contains("COPIED TWICE") && shown.contains(" came back with every byte right, 0 did not"), "{shown}");
    let report: Value = serde_json::from_str(&demo(&["--json"])).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["size"]).collect::<Vec<_>>(), [64, 512, 1514]);
    for measured in
        rows.iter().flat_map(|row| [&row["staged"], &row["direct"]]).flat_map(|runs| runs.as_array().unwrap())
    {
        assert!(measured["mpps"].as_f64().unwrap() > 0.0 && measured["wrong"] == 0, "{measured}");
    }
    let checked = &report["checked"];
    assert!(checked["right"].as_u64().unwrap() > 0 && checked["wrong"] == 0, "{checked}");
}
