//! Small simulations. They need the Debian packages libns3-dev, g++, make and pkg-config, and fail without them.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The simulator's sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sim");

fn simulate(sources: &str, words: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["simulate", "--sources", sources, "--json", "--out"]).arg(out).args(words).output().unwrap()
}

/// Simulates, and returns the rows.
fn rows(words: &[&str]) -> Vec<Value> {
    let out = tempfile::tempdir().unwrap();
    let output = simulate(SOURCES, words, out.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<Value>(&stored).unwrap());
    assert!(std::fs::read_to_string(out.path().join("table.md")).unwrap().contains("| node |"));
    printed["figures"].as_array().unwrap().clone()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Calls `check` with each stage of each row.
fn each_stage(rows: &[Value], mut check: impl FnMut(&Value, &Value)) {
    for row in rows {
        row["stages"].as_array().unwrap().iter().for_each(|stage| check(row, stage));
    }
}

/// The testbed itself checks in every run that all packets arrive or are lost, and fails otherwise.
#[test]
fn packets_are_lost_with_their_frames_and_nothing_else_disappears() {
    let rows = rows(&["--study", "loss", "--seconds", "0.02", "--node", "paper,af_packet"]);
    assert_eq!(rows.len(), 8);
    for row in &rows {
        for way in ["without", "with"] {
            let [lost, frames] = ["lost", "lost_frames"].map(|key| count(&row[way][key]));
            assert!(lost >= frames && lost < count(&row["sent"]) / 10, "{row}");
            assert!(way == "with" || lost == frames, "frames of one packet each: {row}");
        }
    }
    let of_worst = |row: &&Value| row["loss"] == 0.01 && row["node"] == "af_packet";
    let worst = &rows.iter().find(of_worst).unwrap()["with"];
    assert!(count(&worst["lost"]) > 4 * count(&worst["lost_frames"]), "aggregates are lost whole: {worst}");
}

#[test]
fn without_aggregation_each_packet_is_a_frame_and_with_it_frames_stay_within_the_mtu() {
    let rows = rows(&["--study", "traffic,next_hop", "--seconds", "0.01"]);
    each_stage(&rows, |row, stage| {
        let [frames, packets] = [&stage["frames"], &stage["packets"]];
        assert_eq!(frames[0], packets[0], "{row}");
        assert!(count(&frames[1]) <= count(&packets[1]), "{row}");
        // 22 packets of 64 bytes, by docs/aggregation-format.md; 24 of the paper's 60 bytes.
        assert!(count(&stage["most"]) <= if row["node"] == "paper" { 24 } else { 22 }, "{row}");
        if row["sizes"] == "short" {
            assert_eq!(stage["bytes"][0], 64.0, "{row}");
        }
    });
    // A node takes all of a burst at once, whenever it comes.
    let bursts = rows.iter().filter(|row| row["arrivals"]["trains"] == 32 && row["sizes"] == "short");
    let of_millrace: Vec<_> = bursts.filter(|row| row["node"] != "paper").cloned().collect();
    assert_eq!(of_millrace.len(), 2);
    each_stage(&of_millrace, |row, stage| {
        let held = count(&stage["packets"][1]) as f64 / count(&stage["frames"][1]) as f64;
        assert!((15.5..16.5).contains(&held), "{row}");
    });
}

/// The counts are those of tables 4 and 5 of the paper, as far as it says how they came about.
#[test]
fn the_papers_topologies_have_its_counts() {
    let rows = rows(&["--study", "paper", "--seconds", "0.05", "--node", "paper"]);
    let link = |topology: usize, stage: usize| rows[topology]["stages"][stage].clone();
    let near = |found: f64, published: f64, margin: f64| {
        assert!((found / published - 1.0).abs() < margin, "{found} is not near {published}");
    };
    let published = [[1_571_032, 3_131_644, 4_865_252], [1_282_443, 1_283_147, 3_849_441]];
    for (topology, counts) in published.iter().enumerate() {
        for (stage, &count) in counts.iter().enumerate() {
            near(link(topology, stage)["frames"][0].as_f64().unwrap() * 20.0, f64::from(count), 0.06);
        }
    }
    // On the last link of topology I, the node without aggregation is the limit.
    assert!(count(&rows[0]["without"]["waiting"]) > 10_000);
    assert_eq!(count(&link(0, 2)["most"]), 15);
    for topology in [0, 1] {
        assert_eq!(count(&link(topology, 0)["most"]), 3);
    }
}

#[test]
fn a_seed_gives_the_same_results_and_another_one_others() {
    let run = |seed: &str| rows(&["--study", "nodes", "--nodes", "10", "--seconds", "0.01", "--seed", seed]);
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first, run("2"));
}

#[test]
fn missing_and_wrong_input_is_reported() {
    let out = tempfile::tempdir().unwrap();
    let output = simulate("/nowhere", &[], out.path());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no /nowhere/Makefile; run this from the root of Millrace's sources"), "{said}");
    // As without libns3-dev.
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["simulate", "--sources", SOURCES]).env("PKG_CONFIG_LIBDIR", "/nowhere").env_remove("PKG_CONFIG_PATH");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("ns-3 is missing; install the Debian package libns3-dev"), "{said}");
    let output = simulate(SOURCES, &["--seconds", "0"], out.path());
    assert!(String::from_utf8(output.stderr).unwrap().contains("0.001 to 60"));
}

/// Runs the simulator itself with a scenario, after a build.
#[test]
fn a_wrong_line_of_a_scenario_is_named() {
    rows(&["--study", "one_node", "--seconds", "0.005", "--node", "rings"]);
    let run = |scenario: &str| {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("scenario");
        std::fs::write(&file, scenario).unwrap();
        let input = std::fs::File::open(&file).unwrap();
        let output = Command::new(format!("{SOURCES}/build/simulate")).stdin(input).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for (scenario, wrong) in [
        ("seed 1\nsead 2\n", "line 2: there is no `sead`"),
        ("seconds\n", "line 1: a value is missing or wrong"),
        ("seed 1 2\n", "line 1: `2` is too much"),
        ("seed 1 # one\nmodel ours\n", "line 2: there is no `ours`: write `paper` or `millrace`"),
        ("next-hop flow\n", "line 1: there is no `flow`: write `chain` or `packet`"),
        ("node a\nsource a pps=many\n", "line 2: `pps` needs a number, and has `many`"),
        ("node a\nsource a pps=1 sizes=64,\n", "no link leaves node `a`"),
        ("node a\nsource a pps=1 sizes=64,6x\n", "line 2: `sizes` needs a number, and has `6x`"),
        ("node a\nsource a sizes=64\n", "line 2: a source needs `pps`"),
        ("node a\nsource a pps=1 sizes=64,59\n", "line 2: a packet has 60 bytes at least"),
        ("align 0\n", "`align` is not positive"),
        ("node a\nlink a b\n", "there is no node `b`"),
        ("node a\nsink s\n", "no link leaves node `a`"),
    ] {
        let (succeeded, said) = run(scenario);
        assert!(!succeeded && said.contains(wrong), "{scenario}: {said}");
    }
}
