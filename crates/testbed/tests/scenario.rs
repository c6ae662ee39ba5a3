//! The program runs a scenario with all switches that Debian's packages bring, resumes it, and reports it.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn testbed(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_testbed")).args(arguments).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the runs that are stored.
fn runs(directory: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(directory.join("runs.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs the scenario, as often as the machine is too busy for one of its runs, but not for ever.
fn run_all(scenario: &str, out: &str, directory: &Path) -> Output {
    for _ in 0..3 {
        let output = testbed(&["run", scenario, "--out", out], directory);
        if output.status.success() {
            return output;
        }
        eprintln!("{}", text(&output.stderr));
    }
    panic!("the scenario failed three times");
}

#[test]
fn a_scenario_is_run_and_resumed_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = root().join("bench/scenarios/smoke.toml");
    let (scenario, home) = (scenario.to_str().unwrap(), directory.path());
    let output = run_all(scenario, "out", home);
    let said = text(&output.stderr);
    assert!(!said.contains("left out"), "install crates/e2e/debian-packages.txt and run as root: {said}");
    let listed = text(&testbed(&["run", scenario, "--out", "out", "--list"], home).stdout);
    let out = home.join("out");
    let runs = runs(&out);
    assert_eq!(runs.len(), listed.lines().count(), "{listed}");
    for run in &runs {
        let reports = run["reports"].as_array().unwrap();
        let flows: Vec<&Value> = reports.iter().flat_map(|report| report["flows"].as_array().unwrap()).collect();
        if run["search"].is_null() {
            let received = flows.iter().filter_map(|flow| flow["received"]["packets"].as_u64());
            assert!(received.sum::<u64>() > 0, "{run}");
            let changed = |flow: &&Value| flow["received"]["changed"].as_u64().unwrap_or(0);
            assert_eq!(flows.iter().map(changed).sum::<u64>(), 0, "{run}");
            assert!(!run["cpu"].as_array().unwrap().is_empty(), "{run}");
        } else {
            assert!(!run["search"]["trials"].as_array().unwrap().is_empty(), "{run}");
        }
        assert!(!run["switch"]["commands"].as_array().unwrap().is_empty(), "{run}");
    }

    // A run that was cut off is made again, and nothing else.
    let kept = fs::read_to_string(out.join("runs.jsonl")).unwrap();
    let lines: Vec<&str> = kept.lines().collect();
    let (last, whole) = lines.split_last().unwrap();
    fs::write(out.join("runs.jsonl"), format!("{}\n{}", whole.join("\n"), &last[..last.len() / 2])).unwrap();
    run_all(scenario, "out", home);
    let again = fs::read_to_string(out.join("runs.jsonl")).unwrap();
    assert!(again.starts_with(&whole.join("\n")), "runs that were stored have changed");
    assert_eq!(again.lines().count(), lines.len());

    // Another scenario does not go there.
    fs::write(home.join("other.toml"), fs::read_to_string(scenario).unwrap().replace("A short", "Another")).unwrap();
    let refused = testbed(&["run", "other.toml", "--out", "out"], home);
    assert!(!refused.status.success() && text(&refused.stderr).contains("another scenario"), "{refused:?}");

    let report = testbed(&["report", "out"], home);
    assert!(report.status.success(), "{report:?}");
    for file in ["report.html", "summary.md"] {
        let page = fs::read_to_string(out.join(file)).unwrap();
        assert!(page.contains("Millrace") && page.contains("testpmd"), "{file}");
    }
}

#[test]
fn switches_and_techniques_are_listed_with_reasons() {
    let output = testbed(&["list", "--json"], &root());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let entry = |kind: &str, name: &str| {
        let entries = all[kind].as_array().unwrap();
        entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {all}")).clone()
    };
    for name in ["millrace", "linux-bridge", "testpmd", "basicfwd", "ovs-dpdk", "ovs-userspace"] {
        assert_eq!(entry("switches", name)["available"], true, "{}", entry("switches", name));
    }
    for name in ["vpp", "snabb", "vale", "sriov"] {
        let entry = entry("switches", name);
        assert!(!entry["state"].as_str().unwrap().is_empty(), "{entry}");
    }
    assert_eq!(entry("techniques", "udp")["available"], true);
}
