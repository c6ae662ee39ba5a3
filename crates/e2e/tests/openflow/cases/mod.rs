//! The public test cases of OpenFlow switches, those of os-ken's switch tester: each sets flows in Millrace and sends it a
//! packet, and Open vSwitch, as the tester's switch, shows the output.
//!
//! ```text
//!             controller: os-ken's switch tester
//!               |                       |
//!           Millrace  s1 s2 s3 ═══ t1 t2 t3  Open vSwitch
//! ```

use e2e::Home;
use e2e::cable::quiet_namespace;
use e2e::flows::{bridge, join, open_vswitch};
use lab::Result;
use lab::millrace::config::RawOpenflow;
use lab::netns::Namespace;
use lab::process::{Daemon, Interrupt};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The tester's version: others may have other cases.
const TESTER: &str = "os-ken==4.2.2";

/// Files with cases that measure rates for half a minute each, which other work on the machine upsets: they are run by hand.
const RATES: [&str; 2] = ["group: 01_SELECT", "meter: "];

/// Number of cases, without those, and of the ones that Millrace passes. docs/openflow.md has both.
const CASES: usize = 991 - 12 - 36;
const PASSED: usize = 691;

/// Time limit of all cases; they take two minutes, and those that measure rates half an hour, on a machine without other work.
const LIMIT: Duration = Duration::from_secs(3600);

/// How often cases are run again in which the tester's own switch was too slow.
const AGAIN: usize = 4;

/// Kilobits a second that the tester sends to a group of type ALL.
const SENT: f64 = 2000.0;

/// Rigs that share the cases: the tester waits most of the time.
const RIGS: usize = 3;

/// Reasons for which a case is refused: part of its file's or its own name, and the error that must be sent.
const REFUSED: [(&str, &str); 10] = [
    // Provider backbone bridges (IEEE 802.1ah): actions, and a field.
    ("PBB_ISID", "type=0x04, code=0x06"),
    ("pbb", "type=0x02, code=0x00"),
    ("PBB", "type=0x02, code=0x00"),
    ("itag", "type=0x02, code=0x00"),
    // Types of IPv6 extension headers.
    ("39_IPV6_EXTHDR", "type=0x04, code=0x06"),
    // Fields that are not set: those that determine the next header.
    ("set_field: 05_ETH_TYPE", "type=0x02, code=0x0d"),
    ("set_field: 10_IP_PROTO", "type=0x02, code=0x0d"),
    // The tester can't read the packets of a few cases itself; they fail with any switch.
    ("ICMPV4", "it is malformed"),
    // It expects another checksum of SCTP than both switches compute.
    ("set_field: 17_SCTP_SRC", "sctp(csum="),
    ("set_field: 18_SCTP_DST", "sctp(csum="),
];

/// The outcome of a case: a line that the adapter writes.
#[derive(Clone, Debug, Deserialize)]
struct Outcome {
    file: String,
    case: String,
    result: String,
    reason: String,
}

impl Outcome {
    /// Reports whether the tester saw nothing in time, or lost one of the switches.
    fn is_late(&self) -> bool {
        ["Receiving timeout", "Table-miss error", "Disconnected from switch"].contains(&self.result.as_str())
            || self.reason.contains("request timeout")
    }

    /// Reports whether a group of type ALL has sent the same to both ports, only not as fast as the tester expects: its reason names
    /// the rate at each port. It reads the two counters one after the other.
    fn is_slow_alike(&self) -> bool {
        let rates = self.reason.strip_prefix("Received unexpected throughput: ").unwrap_or_default();
        let rate = |port: &str| port.split_once("} ")?.1.strip_suffix("kbps")?.parse::<f64>().ok();
        let rates: Vec<f64> = rates.split(", ").filter_map(rate).collect();
        self.file == "group: 00_ALL"
            && rates.len() == 2
            && (0.9..1.1).contains(&(rates[0] / rates[1]))
            && (1.0..SENT).contains(&rates[0])
    }

    fn passes(&self) -> bool {
        self.result == "OK" || self.is_slow_alike()
    }

    fn is_refused_rightly(&self) -> bool {
        let name = format!("{} {}", self.file, self.case);
        REFUSED.iter().any(|(part, error)| name.contains(part) && self.reason.contains(error))
    }
}

/// Installs the tester, which Debian's package of os-ken lacks, next to the tests' own files; returns the directory.
fn tester() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(TESTER);
    if !directory.exists() {
        let partial = directory.with_extension("partial");
        let _ = std::fs::remove_dir_all(&partial);
        let mut pip = Command::new("/usr/bin/python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", TESTER, "--target"]).arg(&partial);
        let output = pip.output().expect("pip runs; it is in the Debian package python3-pip");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{TESTER} can't be installed from PyPI: {said}");
        std::fs::rename(&partial, &directory).unwrap();
    }
    directory
}

/// Settings of Open vSwitch as the tester's switch.
const TESTER_SWITCH: [&str; 10] = [
    "--",
    "set",
    "bridge",
    "br0",
    "other-config:datapath-id=0000000000000002",
    "other-config:disable-in-band=true",
    "--",
    "set-controller",
    "br0",
    "tcp:127.0.0.1:6653",
];

/// Runs the cases of a directory; returns their outcomes.
fn run(namespace: &Namespace, tester: &Path, cases: &Path, home: &Home) -> Result<Vec<Outcome>> {
    let results = home.path("cases.jsonl");
    let mut command = namespace.command("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/cases/cases.py"));
    command.arg(cases).arg(&results).arg("6653").env("PYTHONPATH", tester);
    let mut daemon = Daemon::spawn("the switch tester", command)?;
    daemon.wait_for_line("the report", LIMIT, |line| line.starts_with("OK("))?;
    daemon.wait(e2e::SOON)?;
    let text = std::fs::read_to_string(results).unwrap();
    Ok(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Copies the files whose descriptions are `wanted` into a new directory.
fn select(cases: &Path, wanted: impl Fn(&str) -> bool, into: &Path) {
    std::fs::create_dir(into).unwrap();
    let mut directories = vec![cases.to_owned()];
    let mut number = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                directories.push(entry);
            } else if entry.extension().is_some_and(|kind| kind == "json") {
                let all: Vec<serde_json::Value> =
                    serde_json::from_str(&std::fs::read_to_string(&entry).unwrap()).unwrap();
                if all.first().and_then(|first| first.as_str()).is_some_and(&wanted) {
                    number += 1;
                    std::fs::copy(&entry, into.join(format!("{number:03}.json"))).unwrap();
                }
            }
        }
    }
}

/// Runs the cases of the files whose descriptions are `wanted`, in several rigs. Returns their outcomes.
fn outcomes(wanted: impl Fn(&str) -> bool + Sync) -> Result<Vec<Outcome>> {
    let tester = &tester();
    std::thread::scope(|scope| {
        let rigs: Vec<_> = (0..RIGS)
            .map(|rig| {
                let wanted = &wanted;
                let own = move |file: &str| wanted(file) && file.bytes().map(usize::from).sum::<usize>() % RIGS == rig;
                scope.spawn(move || outcomes_in_a_rig(tester, own))
            })
            .collect();
        let outcomes = rigs.into_iter().map(|rig| rig.join().expect("no rig panics"));
        Ok(outcomes.collect::<Result<Vec<_>>>()?.concat())
    })
}

/// Runs cases in a rig, and those again in which the tester's switch was too slow.
fn outcomes_in_a_rig(tester: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<Outcome>> {
    let cases = tester.join("os_ken/tests/switch/of13");
    let namespace = quiet_namespace()?;
    ["1", "2", "3"].iter().try_for_each(|number| join(&namespace, [&format!("s{number}"), &format!("t{number}")]))?;
    let (interrupt, home) = (Interrupt::never(), Home::new());
    let controllers = ["tcp:127.0.0.1:6653".to_owned()].into_iter().collect();
    let channel = RawOpenflow { controllers, datapath_id: 1.into(), ..RawOpenflow::default() };
    let _millrace = home.start_inside(&namespace, bridge(["s1", "s2", "s3"], channel));

    let mut outcomes: BTreeMap<(String, String, usize), Outcome> = BTreeMap::new();
    let mut directory = home.path("cases");
    select(&cases, wanted, &directory);
    for attempt in 0..=AGAIN {
        let files = tempfile::Builder::new().prefix("ovs-").tempdir().unwrap();
        let _ovs = open_vswitch(&namespace, files.path(), ["t1", "t2", "t3"], &TESTER_SWITCH, &interrupt)?;
        // A file may have several cases of one name.
        let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
        for outcome in run(&namespace, tester, &directory, &home)? {
            let name = (outcome.file.clone(), outcome.case.clone());
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let known = outcomes.entry((name.0, name.1, *count)).or_insert_with(|| outcome.clone());
            if known.is_late() {
                *known = outcome;
            }
        }
        let late: BTreeSet<String> =
            outcomes.values().filter(|outcome| outcome.is_late()).map(|outcome| outcome.file.clone()).collect();
        if late.is_empty() {
            break;
        }
        eprintln!("attempt {attempt}: too late: {late:?}");
        directory = home.path(&format!("again-{attempt}"));
        select(&cases, |file| late.contains(file), &directory);
    }

    Ok(outcomes.into_values().collect())
}

fn measures_rates(file: &str) -> bool {
    RATES.iter().any(|rates| file.starts_with(rates))
}

#[test]
fn the_public_cases_are_passed_or_refused_with_the_right_error() -> Result<()> {
    let outcomes = outcomes(|file| !measures_rates(file))?;
    assert_eq!(outcomes.len(), CASES);
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passes()).collect();
    let wrong: Vec<_> = failed.iter().filter(|outcome| !outcome.is_refused_rightly()).collect();
    assert!(wrong.is_empty(), "{} cases fail, or are refused for another reason: {wrong:#?}", wrong.len());
    assert_eq!(CASES - failed.len(), PASSED, "docs/openflow.md says how many cases pass");
    Ok(())
}

#[test]
#[ignore = "takes half an hour on a machine without other work"]
fn rates_are_those_of_the_public_cases() -> Result<()> {
    let outcomes = outcomes(measures_rates)?;
    outcomes.iter().for_each(|Outcome { file, case, result, reason }| println!("{result}  {file}  {case}  {reason}"));
    let passed = outcomes.iter().filter(|outcome| outcome.result == "OK").count();
    println!("{passed} of {} pass", outcomes.len());
    Ok(())
}
