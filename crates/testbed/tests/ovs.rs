//! Short comparisons with Open vSwitch. They need root, two processors, huge pages and Debian's package
//! openvswitch-switch-dpdk; without these they fail and name what is missing.

mod common;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for anything that should happen at once.
const SOON: Duration = Duration::from_secs(120);

/// Returns a comparison whose files, except for the results, are all in `scratch`.
fn comparison(load: &str, scratch: &Path, results: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["compare", "--peer", "ovs", "--load", load, "--ring", "packed", "--size", "64", "--rounds", "1"]);
    command.args(["--seconds", "0.3", "--warmup", "0.1", "--millrace"]).arg(common::millrace());
    command.arg("--out").arg(results).env("TMPDIR", scratch);
    command
}

/// Compares until the cycles of Open vSwitch are known; returns the results. A testbed that has no processor while the load
/// sends sees no frame between its readings of the counters.
fn measured(load: &str, scratch: &Path, directory: &Path) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        let output = comparison(load, scratch, directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(directory.join("results.json")).unwrap();
        let results: Value = serde_json::from_str(&text).unwrap();
        if results["figures"][0]["cycles"]["ovs"].as_f64().is_some_and(|cycles| cycles > 0.0) {
            return results;
        }
        assert!(Instant::now() < deadline, "no cycles of Open vSwitch within {SOON:?}: {results}");
    }
}

/// Returns the programs of Open vSwitch that have their files below `scratch`.
fn left(scratch: &Path) -> Vec<String> {
    let scratch = format!("OVS_RUNDIR={}/", scratch.display());
    let about = |process: std::fs::DirEntry| {
        let environment = String::from_utf8_lossy(&std::fs::read(process.path().join("environ")).ok()?).into_owned();
        let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
        environment.contains(&scratch).then(|| name.trim().to_owned())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(about).collect()
}

/// Reports whether the tap of its datapath exists.
fn has_tap() -> bool {
    Path::new("/sys/class/net/ovs-netdev").exists()
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !look() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn frames_come_through_and_nothing_is_left() {
    let had_tap = has_tap();
    for load in ["testbed", "wire"] {
        let (scratch, results) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let results = measured(load, scratch.path(), results.path());
        let version = &results["rig"]["dpdk"];
        assert!(version.as_str().is_some_and(|version| version.starts_with("Open vSwitch")), "{results}");
        let figure = &results["figures"][0];
        // Without frames through Open vSwitch there is no finite ratio. Its rate is rounded: on a busy machine to 0 Mpps.
        assert!(figure["ratio"][0].is_f64(), "{results}");
        // Notes say what the load found wrong; no frame may have come back changed.
        let note = results["note"].as_str().unwrap_or_default();
        assert_eq!(note.matches(" corrupt").count(), note.matches(" 0 corrupt").count(), "{note}");
        assert_eq!(left(scratch.path()), [""; 0]);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "files are left");
        assert_eq!(has_tap(), had_tap);
    }
}

#[test]
fn a_stopped_run_leaves_nothing_behind() {
    let had_tap = has_tap();
    for signal in [Signal::INT, Signal::KILL] {
        let (scratch, results) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut command = comparison("testbed", scratch.path(), results.path());
        let errors = results.path().join("stderr");
        let said = std::fs::File::create(&errors).unwrap();
        let mut testbed = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let is_switch = |name: &String| name.starts_with("ovs-vswitchd");
        wait_for("the start of Open vSwitch", || {
            let ended = testbed.try_wait().unwrap();
            assert_eq!(ended, None, "it ended before: {}", std::fs::read_to_string(&errors).unwrap());
            left(scratch.path()).iter().any(is_switch)
        });
        kill_process(Pid::from_child(&testbed), signal).unwrap();
        assert!(!testbed.wait().unwrap().success());
        wait_for("the end of all that it started", || left(scratch.path()).is_empty());
        assert_eq!(has_tap(), had_tap);
    }
}
