//! Short end-to-end analyses, whose figures do not matter.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");

fn testbed(words: &[&str], out: &Path) -> Output {
    let output = Command::new(TESTBED).args(words).arg("--out").arg(out).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn results(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(directory.join("results.json")).unwrap()).unwrap()
}

/// Checks that every point of every row moved frames and lost none.
fn all_moved(results: &Value, rows: usize, points: usize) {
    assert_eq!(results["rows"].as_array().unwrap().len(), rows);
    for row in results["rows"].as_array().unwrap() {
        assert_eq!(row["points"].as_array().unwrap().len(), points);
        for sample in row["points"].as_array().unwrap().iter().flat_map(|point| point["samples"].as_array().unwrap()) {
            assert!(sample["mpps"].as_f64().unwrap() > 0.0 && sample["lost"] == 0, "{row}");
        }
    }
}

#[test]
fn all_copy_patterns_move_frames() {
    let out = tempfile::tempdir().unwrap();
    let words = ["analyse", "patterns", "--pattern", "a,b,c,d,e,f,g,h", "--size", "64"];
    testbed(&[&words[..], &["--rounds", "1", "--seconds", "0.05"]].concat(), out.path());
    all_moved(&results(out.path()), 2, 8);
    for picture in ["chart.svg", "formats.svg"] {
        assert!(std::fs::read_to_string(out.path().join(picture)).unwrap().ends_with("</svg>\n"));
    }
}

#[test]
fn rings_of_all_sizes_move_frames() {
    let out = tempfile::tempdir().unwrap();
    let words =
        ["analyse", "rings", "--physical", "64,8192", "--virtual", "64,16384", "--transmit", "256:1024,4096:64"];
    let output = testbed(&[&words[..], &["--rounds", "1", "--seconds", "0.05"]].concat(), out.path());
    all_moved(&results(out.path()), 4, 4);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("tx 4096:64 16384") && text.contains("(e) 8192"), "{text}");
}

#[test]
fn a_model_of_the_caches_tells_the_parts_apart() {
    let out = tempfile::tempdir().unwrap();
    let words = ["analyse", "cache", "--json", "--pattern", "a,e", "--ring", "split", "--size", "1514"];
    testbed(&[&words[..], &["--virtual", "1024:256", "--frames", "1000"]].concat(), out.path());
    let results = results(out.path());
    let misses = |point: usize, part: usize| results["points"][point]["parts"][part]["d1_misses"].as_f64().unwrap();
    assert_eq!(results["points"][0]["parts"][0]["part"], "SW_R");
    // 24 cache lines are copied, and hardly any if the frame is received in place.
    assert!(misses(0, 0) > 24.0 && misses(1, 0) < 24.0, "{results}");
}

#[test]
fn parts_between_two_functions_are_measured_with_copies_and_exchanges() {
    let out = tempfile::tempdir().unwrap();
    let words = ["analyse", "exchange", "--json", "--size", "64,1518", "--rounds", "1", "--turns", "10"];
    let output = testbed(&words, out.path());
    let results = results(out.path());
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), results);
    assert_eq!(results["figures"].as_array().unwrap().len(), 8, "two rings, two sizes, headers and payloads");
    for row in results["figures"].as_array().unwrap() {
        for way in ["copy", "exchange"] {
            let part = |part: &str| row["ns"][way][part].as_f64().unwrap();
            assert!(part("function") > 0.0 && part("switch") > 0.0, "{row}");
        }
    }
    assert!(std::fs::read_to_string(out.path().join("chart.svg")).unwrap().ends_with("</svg>\n"));
}

#[test]
fn parts_between_a_nic_and_a_function_are_measured_with_headers_and_payloads() {
    let out = tempfile::tempdir().unwrap();
    let words = ["analyse", "parts", "--size", "64,1514", "--pattern", "a,g", "--touch", "header,payload"];
    testbed(&[&words[..], &["--rounds", "1", "--turns", "10"]].concat(), out.path());
    let results = results(out.path());
    let touched = |level: &str| {
        let rows = results["figures"].as_array().unwrap().iter();
        rows.filter(|row| row["touched"] == level && row["mpps"].as_f64().unwrap() > 0.0).count()
    };
    assert_eq!([touched("header"), touched("payload")], [8, 8], "two patterns, two rings, two sizes: {results}");
    let chart = std::fs::read_to_string(out.path().join("chart.svg")).unwrap();
    assert!(chart.contains("packed rings, payload touched"), "{chart}");
}

#[test]
fn ways_to_share_a_queue_are_compared() {
    let out = tempfile::tempdir().unwrap();
    let words = ["analyse", "sharing", "--rounds", "1", "--turns", "1", "--threads", "1,2,3"];
    let output = testbed(&[&words[..], &["--work", "300", "--json"]].concat(), out.path());
    let results = results(out.path());
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), results);
    let rows = |figure: &str| {
        let rows = results["figures"].as_array().unwrap().iter().filter(|row| row["figure"] == figure);
        rows.cloned().collect::<Vec<_>>()
    };
    // One thread alone, and four sharings with one to three threads, under two loads, with one flow and many.
    assert_eq!(rows("cycles").len(), 2 * 2 * (1 + 4 * 3));
    for row in rows("cycles") {
        let batch = row["batch"].as_f64().unwrap();
        assert!(row["sharing"].is_string() && (1.0..=32.0).contains(&batch), "{row}");
    }
    for flows in ["one", "many"] {
        assert!(
            rows("cycles").iter().any(|row| row["sharing"] == "rss" && row["flows"] == flows && row["threads"] == 3)
        );
    }
    // Of two threads with a queue each, one has all frames of one flow: its speed is that of one.
    let is_rss = |row: &Value| row["sharing"] == "rss" && row["flows"] == "one" && row["threads"] == 2;
    let speeds = rows("speed");
    let speed = speeds.iter().find(|row| is_rss(row) && row["work"] == 300).unwrap();
    // Two threads have no speed if one of them had no processor while the other one worked, and the model is fed with theirs.
    let is_fed = speeds.iter().any(|row| row["sharing"] == "locked" && row["threads"] == 2 && row["work"] == 0);
    assert_eq!(speed["predicted_mpps"].as_f64().is_some_and(|mpps| mpps > 0.0), is_fed, "{speed}");
    assert_eq!(rows("switch").len(), 1 + 4 * 3);
    for row in rows("switch") {
        let has_parent = row["sharing"] == "static-role" || row["sharing"] == "working-parent";
        assert!(row["cycles"].as_f64().unwrap() > 0.0 && row["steps"]["release"].is_number() == has_parent, "{row}");
    }
    let text = std::fs::read_to_string(out.path().join("table.txt")).unwrap();
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(
        words.windows(4).any(|row| row == ["static-role", "parent", "+", "2"]) && text.contains("DEVIATION"),
        "{text}"
    );
    assert!(std::fs::read_to_string(out.path().join("chart.svg")).unwrap().ends_with("</svg>\n"));
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_nic_that_compares_finds_omitted_copies() {
    let directory = tempfile::tempdir().unwrap();
    for (pattern, sound) in [("a", true), ("b", false), ("g", true)] {
        let sockets = ["nic", "nf"].map(|name| directory.path().join(format!("{pattern}-{name}.sock")));
        let mut wire = Command::new(TESTBED);
        wire.args(["wire", "--json", "--touch", "payload", "--size", "512", "--seconds", "0.2"]).args(&sockets);
        let mut wire = Running(wire.stdout(Stdio::piped()).spawn().unwrap());
        let mut switch = Command::new(TESTBED);
        switch.args(["analyse", "switch", "--pattern", pattern]).args(&sockets).stdin(Stdio::piped());
        let _switch = Running(switch.spawn().unwrap());
        let report: Value = serde_json::from_reader(wire.0.stdout.take().unwrap()).unwrap();
        assert!(report["packets"].as_u64().unwrap() > 0, "{pattern}: {report}");
        assert_eq!(report["corrupt"] == 0, sound, "{pattern}: {report}");
    }
}
