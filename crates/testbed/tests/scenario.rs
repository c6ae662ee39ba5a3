//! The program runs a scenario with all switches that Debian's packages bring, resumes it, and reports it.

use lab::netns::{Namespace, cable};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn run_testbed(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_testbed")).args(arguments).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn runs(directory: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(directory.join("runs.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs the scenario, as often as the machine is too busy for one of its runs, but not forever.
fn run_all(scenario: &str, out: &str, directory: &Path) -> Output {
    for _ in 0..3 {
        let output = run_testbed(&["run", scenario, "--out", out], directory);
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
    let listed = text(&run_testbed(&["run", scenario, "--out", "out", "--list"], home).stdout);
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
    let refused = run_testbed(&["run", "other.toml", "--out", "out"], home);
    assert!(!refused.status.success() && text(&refused.stderr).contains("another scenario"), "{refused:?}");

    // Figures leave out runs whose processors moved, which may be all runs of a switch.
    let near = again.replace("\"distance\":\"far\"", "\"distance\":\"near\"");
    fs::write(out.join("runs.jsonl"), near).unwrap();
    let report = run_testbed(&["report", "out"], home);
    assert!(report.status.success(), "{report:?}");
    for file in ["report.html", "summary.md"] {
        let page = fs::read_to_string(out.join(file)).unwrap();
        assert!(page.contains("Millrace") && page.contains("testpmd"), "{file}");
    }
}

#[test]
fn switches_and_techniques_are_listed_with_reasons() {
    let output = run_testbed(&["list", "--json"], &root());
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
    assert_eq!(entry("containers", "lxc")["available"], true, "{}", entry("containers", "lxc"));
}

#[test]
fn two_machines_are_two_hosts_with_containers() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    // Each machine is a namespace with a network card, and the second one is reached by entering its namespace.
    let [here, there] = [0, 1].map(|_| Namespace::create().unwrap_or_else(|error| panic!("as root: {error}")));
    cable([(&here, "card"), (&there, "card")]).unwrap();
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let reach = there.command(testbed);
    let words: Vec<&str> =
        std::iter::once(reach.get_program()).chain(reach.get_args()).map(|word| word.to_str().unwrap()).collect();
    let scenario = format!(
        "title = \"Two machines\"\nswitches = [\"linux-bridge\", \"millrace\"]\ncontainers = \"lxc\"\n\
         [timing]\nseconds = 0.3\nrounds = 1\n\
         [other-machine]\ncommand = {words:?}\ncards = [\"card\", \"card\"]\n\
         [[test]]\ndimension = \"throughput\"\nlocation = \"remote\"\ntechniques = [\"raw-mmsg\"]\nrates = [\"2000\"]\n\
         [[test]]\ndimension = \"latency\"\nlocation = \"remote\"\ntechniques = [\"virtio-user\"]\nrates = [\"200\"]\n\
         bursts = [1]\n"
    );
    fs::write(home.join("two.toml"), scenario).unwrap();
    let run = || {
        let mut command = here.command(testbed);
        command.args(["run", "two.toml", "--out", "out"]).current_dir(home).output().unwrap()
    };
    // A busy machine may let no packet through in time.
    let output = (0..3).map(|_| run()).find(|output| {
        eprintln!("{}", text(&output.stderr));
        output.status.success()
    });
    assert!(output.is_some(), "the scenario failed three times");
    let runs = runs(&home.join("out"));
    assert_eq!(runs.len(), 3, "{runs:?}");
    for run in &runs {
        // The receivers' reports come from the other machine.
        let role = |wanted: &str| run["reports"].as_array().unwrap().iter().any(|report| report["role"] == wanted);
        let roles = if run["point"]["dimension"] == "latency" { ["client", "server"] } else { ["sender", "receiver"] };
        assert!(roles.iter().all(|name| role(name)), "{run}");
    }
    let rig: Value = serde_json::from_str(&fs::read_to_string(home.join("out/rig.json")).unwrap()).unwrap();
    assert_eq!(rig["other"]["kernel"], rig["kernel"]);
    assert!(run_testbed(&["report", "out"], home).status.success());
    assert!(fs::read_to_string(home.join("out/report.html")).unwrap().contains("second host"));
    // The cards are back.
    for machine in [&here, &there] {
        let link = machine.run("ip", &["link", "show", "card"]).unwrap();
        assert!(link.contains("mtu 1500"), "{link}");
    }

    // A machine that can't be reached is named with its output.
    let missing =
        "[other-machine]\ncommand = [\"sh\", \"-c\", \"echo no route >&2; exit 7\"]\ncards = [\"a\", \"b\"]\n";
    let one = "[[test]]\ndimension = \"latency\"\nlocation = \"remote\"\ntechniques = [\"raw\"]\n";
    fs::write(home.join("gone.toml"), format!("title = \"Gone\"\nswitches = [\"millrace\"]\n{missing}{one}")).unwrap();
    let failed = run_testbed(&["run", "gone.toml"], home);
    let said = text(&failed.stderr);
    assert!(!failed.status.success() && said.contains("the other machine") && said.contains("no route"), "{said}");
}
