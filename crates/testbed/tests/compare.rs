//! Short comparisons of Millrace with itself, whose figures do not matter. They need two processors.

mod common;

use serde_json::Value;
use std::process::Command;

#[test]
fn a_function_keeps_what_comes_out_of_a_tunnel() {
    let out = tempfile::tempdir().unwrap();
    let mut compare = Command::new(env!("CARGO_BIN_EXE_testbed"));
    compare.args(["compare", "--load", "wire", "--forward", "map,patch", "--vxlan", "--sink", "--size", "64,1400"]);
    compare.args(["--touch", "header,payload", "--rounds", "1", "--seconds", "0.3", "--warmup", "0.1", "--millrace"]);
    let output = compare.arg(common::millrace()).arg("--out").arg(out.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let results = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    assert_eq!(
        results["figures"].as_array().unwrap().len(),
        8,
        "two rings, two sizes, headers and payloads: {results}"
    );
    for row in results["figures"].as_array().unwrap() {
        assert!(row["ratio"][0].as_f64().is_some_and(|ratio| ratio > 0.0), "{row}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["inside VXLAN", "keeps the frames", "flatter what does not copy"] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let mut wrong = text.lines().filter(|line| line.contains(" corrupt,") && !line.contains(" 0 corrupt,"));
    assert_eq!(wrong.next(), None, "frames are compared with those that were sent");
}
