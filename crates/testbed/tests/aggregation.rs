//! Short measurements of aggregation, whose figures do not matter. They need root, two processors, iproute2 and util-linux;
//! those with a program between the nodes also need DPDK's testpmd, Debian's package openvswitch-switch-dpdk and huge pages.
//! Without these they fail and name what is missing.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for anything that should happen at once.
const SOON: Duration = Duration::from_secs(120);

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

fn throughput(words: &[&str], scratch: &Path, results: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["aggregation", "throughput", "--rounds", "1", "--seconds", "0.05", "--loads", "max"]).args(words);
    command.arg("--programs").arg(programs()).arg("--out").arg(results).env("TMPDIR", scratch);
    command
}

/// Builds the driver for DPDK applications beside the programs.
fn build_driver() {
    lab::dpdk::plugin::built("net_paflow", "librte_net_paflow.so", programs()).expect("the driver builds");
}

fn measured(path: &str, size: u16, placements: &[(&str, f64)]) {
    measured_with("nf-forward", path, size, placements);
}

/// Measures this function; checks that packets came through with every placement, with the expected number per frame, and that no
/// files are left.
fn measured_with(function: &str, path: &str, size: u16, placements: &[(&str, f64)]) {
    let (scratch, results) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let names: Vec<&str> = placements.iter().map(|(name, _)| *name).collect();
    let size_in_words = size.to_string();
    let words = ["--function", function, "--path", path, "--sizes", &size_in_words, "--placement", &names.join(",")];
    let output = throughput(&words, scratch.path(), results.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(results.path().join("results.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let row = &json["rows"][0];
    assert_eq!((row["path"].as_str(), row["size"].as_u64()), (Some(path), Some(size.into())), "{row}");
    assert_eq!(row["runs"].as_array().unwrap().len(), placements.len(), "{row}");
    for (run, (name, most)) in row["runs"].as_array().unwrap().iter().zip(placements) {
        assert_eq!(run["placement"], *name, "{run}");
        let loads = run["loads"].as_array().unwrap();
        assert!(loads.iter().any(|load| load["mpps"].as_f64().unwrap() > 0.0), "{run}");
        for load in loads {
            let held = load["packets_a_frame"].as_f64().unwrap();
            // Packets and frames are read one after the other, while both of them grow.
            assert!((0.9..1.5 * most).contains(&held), "{load}");
            assert!(load["function"]["packets"].as_u64() >= load["function"]["frames"].as_u64(), "{load}");
        }
        assert!(loads.iter().any(|load| load["packets_a_frame"].as_f64().unwrap() > most / 2.0), "{run}");
    }
    let files = [("table.md", "| bytes |"), (&format!("{path}.svg"), "</svg>")];
    for (file, expected) in files {
        assert!(std::fs::read_to_string(results.path().join(file)).unwrap().contains(expected), "{file}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "files are left");
}

#[test]
fn packets_come_through_rings() {
    measured("rings", 64, &[("none", 1.0), ("vhost", 22.0), ("nf", 22.0)]);
}

#[test]
fn packets_come_through_an_unmodified_function() {
    build_driver();
    measured_with("testpmd", "rings", 64, &[("none", 1.0), ("ethdev", 22.0)]);
}

#[test]
fn a_placement_that_is_not_for_the_function_is_refused() {
    let scratch = TempDir::new().unwrap();
    let said = |words: &[&str]| {
        let output = throughput(words, scratch.path(), scratch.path()).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for words in [["--function", "testpmd", "--placement", "nf"], ["--function", "nf-forward", "--placement", "ethdev"]]
    {
        let said = said(&words);
        assert!(said.contains("is not for this network function"), "{said}");
    }
}

#[test]
fn packets_come_through_a_cable() {
    measured("af_packet", 256, &[("vhost", 5.0)]);
    measured("af_xdp", 1024, &[("native", 1.0)]);
}

#[test]
fn packets_come_through_programs() {
    measured("ovs", 64, &[("native", 22.0)]);
    measured("testpmd", 64, &[("nf", 22.0)]);
}

/// Packets of two sizes come through the second node with its port mapped and without.
#[test]
fn packets_come_through_a_mapping() {
    let (scratch, results) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["aggregation", "mapping", "--rounds", "1", "--seconds", "0.05", "--packets", "half,imix"]);
    command
        .args(["--placement", "vhost,native", "--loads", "max", "--programs"])
        .arg(programs())
        .arg("--out")
        .arg(results.path());
    let output = command.env("TMPDIR", scratch.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(results.path().join("results.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    for row in json["rows"].as_array().unwrap() {
        let round = &row["rounds"][0];
        let loads = |kind: &str| round[kind].as_array().unwrap().clone();
        assert!(loads("unmapped").iter().all(|load| load["in_place"].is_null()), "{row}");
        for kind in ["unmapped", "mapped"] {
            assert!(loads(kind).iter().any(|load| load["mpps"].as_f64().unwrap() > 0.0), "{row}");
        }
        // How many stay in place is for the switch to measure, which copies where that is faster on this machine.
        assert!(loads("mapped").iter().all(|load| load["in_place"].is_number()), "{row}");
    }
    assert!(std::fs::read_to_string(results.path().join("table.md")).unwrap().contains("| virtio | half | vhost |"));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "files are left");
}

/// Returns the ids of all descendants of a process.
fn descendants(of: u32) -> Vec<u32> {
    let parent = |id: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let ids: Vec<u32> = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let children = ids.into_iter().filter(|id| parent(*id) == Some(of));
    children.flat_map(|id| [vec![id], descendants(id)].concat()).collect()
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !look() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stopped_run_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::KILL] {
        let (scratch, results) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut command = throughput(&["--path", "af_packet", "--sizes", "64"], scratch.path(), results.path());
        let mut testbed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = testbed.id();
        // Two namespace holders, two nodes, and the function.
        wait_for("the start of all programs", || descendants(id).len() >= 5);
        let all = descendants(id);
        kill_process(Pid::from_child(&testbed), signal).unwrap();
        assert!(!testbed.wait().unwrap().success());
        let is_there = |id: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // Zombies count as ended.
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
        };
        wait_for("the end of all that it started", || !all.iter().any(is_there));
    }
}
