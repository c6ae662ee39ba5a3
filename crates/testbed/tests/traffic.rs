//! Traffic through a node that aggregates, packet by packet: short measurements, checked for consistency only. They need root
//! and two processors.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the directory of `millrace` and `nf-forward`: that of the program named by the environment variable MILLRACE, or the
/// one in which cargo builds them, beside `testbed`.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let directory = |program: &Path| program.parent().expect("it is in a directory").to_owned();
        if let Some(millrace) = std::env::var_os("MILLRACE") {
            return directory(Path::new(&millrace));
        }
        let words = ["build", "--quiet", "--workspace", "--bins"];
        let build = Command::new(env!("CARGO")).args(words).status();
        assert!(build.expect("cargo runs").success(), "Millrace does not build");
        directory(Path::new(env!("CARGO_BIN_EXE_testbed")))
    })
}

/// Runs `testbed aggregation` with these arguments, checks the charts, and returns results and table.
fn measured(words: &[&str], pictures: &[&str]) -> (Value, String) {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.arg("aggregation").args(words).args(["--rounds", "1", "--seconds", "0.1", "--programs"]).arg(programs());
    let output = command.arg("--out").arg(out.path()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    for picture in pictures {
        let picture = read(picture);
        assert!(picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
    }
    (serde_json::from_str(&read("results.json")).unwrap(), read("table.md"))
}

/// Returns the samples with the conditions `of`, after checking that every packet is accounted for.
fn samples<'r>(results: &'r Value, of: &[(&str, Value)]) -> Vec<&'r Value> {
    let rows = results["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| of.iter().all(|(key, value)| row[key] == *value));
    let samples: Vec<&Value> = rows.flat_map(|row| row["samples"].as_array().unwrap()).collect();
    assert!(!samples.is_empty(), "{of:?}: {results}");
    for sample in &samples {
        let number = |key: &str| sample[key].as_u64().unwrap();
        assert!(number("received") > 0 && number("strange") == 0, "{sample}");
        assert_eq!(number("offered"), number("received") + number("lost"), "{sample}");
        let runs = sample["runs"].as_object().into_iter().flatten();
        let lost: u64 = runs.map(|(length, count)| length.parse::<u64>().unwrap() * count.as_u64().unwrap()).sum();
        assert_eq!(lost, number("lost"), "{sample}");
    }
    samples
}

fn frames_a_packet(sample: &Value) -> f64 {
    sample["frames"].as_f64().unwrap() / sample["received"].as_f64().unwrap()
}

#[test]
fn packets_in_a_row_leave_in_few_frames() {
    let words = ["ratio", "--path", "rings,af_packet,af_xdp", "--rate", "0.05", "--train", "1,32"];
    let (results, table) = measured(&words, &["ratio.svg"]);
    for path in ["rings", "af_packet", "af_xdp"] {
        let of = |train: u64| frames_a_packet(samples(&results, &[("path", path.into()), ("train", train.into())])[0]);
        let (smooth, bursty) = (of(1), of(32));
        // At best two frames for 32 packets at a cable's MTU. After a pause, a node finds many packets in a row in smooth
        // traffic, too.
        assert!((0.06..=0.5).contains(&bursty) && (0.04..=1.0).contains(&smooth), "{path}: {smooth}, {bursty}");
        assert!(table.contains(&format!("| {path} | 32 in a row | 0.05 |")), "{table}");
    }
}

#[test]
fn every_placement_has_its_times() {
    let (results, table) = measured(&["latency", "--rate", "0.02,0.1"], &["latency.svg"]);
    for placement in ["none", "vhost", "nf", "native"] {
        for sample in samples(&results, &[("placement", placement.into())]) {
            let time = |key: &str| sample["times"][key].as_f64().unwrap();
            assert!(0.0 < time("p50") && time("p50") <= time("p99") && time("p99") <= time("p999"), "{sample}");
            assert!(time("p999") <= time("greatest") * 1.01, "{sample}");
        }
        assert!(table.contains(&format!("| 0.1 | {placement} |")), "{table}");
    }
    assert!(table.contains("1.000 (1.000..1.000)"), "{table}");
}

#[test]
fn excess_packets_are_lost_and_counted_by_lengths_of_runs() {
    let words = ["drops", "--path", "rings", "--rate", "0.02,60", "--train", "22", "--joined"];
    let (results, _) = measured(&words, &["drops.svg", "runs.svg"]);
    for placement in ["none", "vhost", "nf", "native"] {
        for rate in [0.02, 60.0] {
            samples(&results, &[("placement", placement.into()), ("rate", rate.into())]);
        }
    }
    // The machine decides whether the node or the sender is slower; but the sender cannot always be.
    let words = ["drops", "--path", "rings", "--placement", "none", "--rate", "1000"];
    let lost_in_a_row = || {
        let (results, _) = measured(&words, &[]);
        let runs = samples(&results, &[])[0]["runs"].as_object().unwrap();
        runs.keys().any(|length| length.parse::<u64>().unwrap() > 1)
    };
    assert!((0..30).any(|_| lost_in_a_row()), "a thousand packets a microsecond get through");
}

#[test]
fn a_path_along_which_packets_cannot_be_followed_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["aggregation", "drops", "--path", "testpmd", "--rounds", "1", "--programs"]).arg(programs());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("rings, af_packet or af_xdp"), "{said}");
}
