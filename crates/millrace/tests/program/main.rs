//! Tests of the program as a process.

mod capabilities;
mod confinement;
mod descriptors;
mod events;
mod kills;
mod mirror;
mod outputs;
mod parts;
mod recording;
mod replay;
mod service;
#[path = "../terminal/mod.rs"]
mod terminal;
mod top;

use api::reload::ReloadReport;
use engine::reload::Step;
use lab::millrace::config::{Configuration, RawFile, RawMetrics, RawPort, file, patch, sink};
use lab::millrace::{Files, Millrace, SOON, Start};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn millrace(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn files(directory: &Path) -> Files {
    Files { configuration: directory.join("m.toml"), control: directory.join("c.sock") }
}

/// Starts the switch, and waits until it answers.
fn start(directory: &Path, configuration: impl Configuration) -> Millrace {
    start_by(Start::new(Path::new(env!("CARGO_BIN_EXE_millrace"))), directory, configuration)
}

fn start_by(start: Start, directory: &Path, configuration: impl Configuration) -> Millrace {
    let files = files(directory);
    files.configure(configuration).unwrap();
    start.start(files).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the output of `millrace ctl` with these arguments.
fn ctl(switch: &Millrace, arguments: &[&str]) -> Output {
    switch.control(arguments).output().unwrap()
}

/// Sends the switch a signal that ends it, and returns its exit status.
fn end(switch: &mut Millrace, signal: Signal) -> i32 {
    switch.daemon.signal(signal).unwrap();
    wait(switch)
}

/// Waits for the end of the switch, and returns its exit status.
fn wait(switch: &mut Millrace) -> i32 {
    switch.daemon.wait(SOON).unwrap().code().unwrap_or(-1)
}

fn two_sinks() -> RawFile {
    file((sink("a"), sink("b"), patch("a", "b")))
}

#[test]
fn the_status_of_check_is_its_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.toml");
    let name = file.to_str().unwrap();
    let two_sinks = "port = [{name='a', driver='sink'}, {name='b', driver='sink'}]\npatch = [{ports=['a', 'b']}]";
    fs::write(&file, two_sinks).unwrap();
    let good = millrace(&["check", name]);
    assert!(good.status.success());
    assert_eq!(text(&good.stdout), format!("{name}: good, with 2 ports, 1 patches, 0 bridges and 1 workers\n"));
    assert_eq!(text(&good.stderr), "");

    fs::write(&file, "[[port]]\nname = 'a'\ndriver = 'snk'\n").unwrap();
    let bad = millrace(&["check", "--config", name]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stderr).contains(&format!("--> {name}:3:10")), "{}", text(&bad.stderr));
    assert!(text(&bad.stderr).contains("did you mean `sink`?"));

    let missing = millrace(&["run", "--config", "/nonexistent.toml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("millrace: cannot read the configuration /nonexistent.toml: "));
}

#[test]
fn schema_is_json_and_markdown() {
    let schema: serde_json::Value = serde_json::from_slice(&millrace(&["schema"]).stdout).unwrap();
    assert_eq!(schema["properties"]["port"]["items"]["$ref"], "#/$defs/port");
    assert!(text(&millrace(&["schema", "--markdown"]).stdout).starts_with("# Configuration\n"));
}

#[test]
fn a_switch_answers_reloads_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), two_sinks());
    let stats: serde_json::Value = serde_json::from_slice(&ctl(&switch, &["stats", "--json"]).stdout).unwrap();
    assert!(stats["uptime_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(switch.ctl("version").unwrap(), format!("millrace {}\n", env!("CARGO_PKG_VERSION")));
    let watched = ctl(&switch, &["stats", "--watch", "0.05", "--count", "2", "--json"]);
    assert_eq!(text(&watched.stdout).lines().count(), 2, "{watched:?}");

    let files = files(directory.path());
    let three = || (two_sinks(), sink("c"));
    files.configure(three()).unwrap();
    let report: ReloadReport = switch.reload().unwrap();
    assert_eq!((report.ports(Step::Added), report.ports(Step::Kept)), (vec!["c"], vec!["a", "b"]));
    assert_eq!(report.warnings.len(), 1, "c is in no patch");

    // A new port whose file can't be written is reported, also by the exit status.
    let unwritten = RawPort { record_to: "gone/d.pcap".into(), ..sink("d") };
    for arguments in [&["reload"][..], &["reload", "--json"]] {
        files.configure((three(), &unwritten)).unwrap();
        let failed = ctl(&switch, arguments);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(text(&failed.stdout).contains("cannot record to "), "{failed:?}");
        assert!(text(&failed.stderr).contains("the reload failed in 1 of its actions"), "{failed:?}");
        files.configure(three()).unwrap();
        assert_eq!(ctl(&switch, &["reload"]).status.code(), Some(0));
    }

    files.configure("port = 1").unwrap();
    let refused = ctl(&switch, &["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("m.toml:1:8"), "{refused:?}");

    files.configure(two_sinks()).unwrap();
    let mark = switch.daemon.log().mark();
    switch.daemon.signal(Signal::HUP).unwrap();
    switch.wait_said(mark, "reloaded: removed port c; changed worker 0 (queues); kept 2 ports, 1 patch").unwrap();

    assert_eq!(end(&mut switch, Signal::TERM), 0);
    assert!(!files.control.exists(), "the control socket is left behind");
    let gone = ctl(&switch, &["ports"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).starts_with("millrace: no switch answers on "), "{gone:?}");
}

#[test]
fn a_second_switch_does_not_take_the_socket_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), two_sinks());
    let file = directory.path().join("m.toml");
    let second = millrace(&["run", "--config", file.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another process listens there"), "{second:?}");
    assert_eq!(switch.ctl("shutdown").unwrap(), "The switch is stopping.\n");
    assert_eq!(wait(&mut switch), 0);
}

#[test]
fn metrics_are_scraped_from_a_running_switch() {
    let directory = tempfile::tempdir().unwrap();
    // A port that was free a moment ago; the switch needs an explicit number.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let metrics = RawMetrics { listen: address.to_string().into() };
    let _switch = start(directory.path(), (two_sinks(), metrics));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("millrace_uptime_seconds ") && page.ends_with("# EOF\n"), "{page}");
}
