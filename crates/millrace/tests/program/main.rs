//! Tests of the program as a process.

mod capabilities;
mod confinement;
mod mirror;
#[path = "../terminal/mod.rs"]
mod terminal;
mod top;

use engine::reload::Step;
use millrace::control::{Client, ReloadReport};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn millrace(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A running switch; dropping it kills it.
struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(directory: &Path, configuration: &str) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_millrace")), directory, configuration)
    }

    /// Starts the switch with a command that execs the program.
    fn start_by(mut command: Command, directory: &Path, configuration: &str) -> Self {
        let file = directory.join("m.toml");
        configure(&file, configuration);
        let child = command.args(["run", "--config"]).arg(&file).stderr(Stdio::piped()).spawn().unwrap();
        let mut daemon = Self { child, socket: directory.join("c.sock") };
        wait_until("the control socket", || match daemon.child.try_wait().unwrap() {
            Some(status) => {
                let mut said = String::new();
                daemon.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the switch ended with {status}: {said}")
            }
            // The socket is there a moment before the switch listens.
            None => UnixStream::connect(&daemon.socket).is_ok(),
        });
        daemon
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        millrace(&[&["ctl", "--socket", self.socket.to_str().unwrap()], arguments].concat())
    }

    fn wait(&mut self) -> i32 {
        let mut code = None;
        wait_until("the end of the switch", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap_or(-1)
    }
}

fn configure(file: &Path, configuration: &str) {
    fs::write(file, format!("{configuration}\n[control]\nsocket = 'c.sock'\n")).unwrap();
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const TWO_SINKS: &str = "port = [{name='a', driver='sink'}, {name='b', driver='sink'}]\npatch = [{ports=['a', 'b']}]";

#[test]
fn check_judges_and_its_status_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.toml");
    let name = file.to_str().unwrap();
    fs::write(&file, TWO_SINKS).unwrap();
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
    let mut daemon = Daemon::start(directory.path(), TWO_SINKS);
    let stats: serde_json::Value = serde_json::from_slice(&daemon.ctl(&["stats", "--json"]).stdout).unwrap();
    assert!(stats["uptime_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(text(&daemon.ctl(&["version"]).stdout), format!("millrace {}\n", env!("CARGO_PKG_VERSION")));
    let watched = daemon.ctl(&["stats", "--watch", "0.05", "--count", "2", "--json"]);
    assert_eq!(text(&watched.stdout).lines().count(), 2, "{watched:?}");

    let file = directory.path().join("m.toml");
    let old = fs::read_to_string(&file).unwrap();
    fs::write(&file, old.replace("}]\npatch", "}, {name='c', driver='sink'}]\npatch")).unwrap();
    let mut client = Client::connect(&daemon.socket).unwrap();
    let report: ReloadReport = client.call_as("reload").unwrap();
    assert_eq!((report.ports(Step::Added), report.ports(Step::Kept)), (vec!["c"], vec!["a", "b"]));
    assert_eq!(report.warnings.len(), 1, "c is in no patch");

    // A new port whose file can't be written is reported, also by the exit status.
    let failing = "}, {name='c', driver='sink'}, {name='d', driver='sink', record-to='gone/d.pcap'}]\npatch";
    fs::write(&file, old.replace("}]\npatch", failing)).unwrap();
    for arguments in [&["reload"][..], &["reload", "--json"]] {
        fs::write(&file, old.replace("}]\npatch", failing)).unwrap();
        let failed = daemon.ctl(arguments);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(text(&failed.stdout).contains("cannot record to "), "{failed:?}");
        assert!(text(&failed.stderr).contains("the reload failed in 1 of its actions"), "{failed:?}");
        fs::write(&file, old.replace("}]\npatch", "}, {name='c', driver='sink'}]\npatch")).unwrap();
        assert_eq!(daemon.ctl(&["reload"]).status.code(), Some(0));
    }

    fs::write(&file, "port = 1").unwrap();
    let refused = daemon.ctl(&["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("m.toml:1:8"), "{refused:?}");

    fs::write(&file, old).unwrap();
    let mut log = BufReader::new(daemon.child.stderr.take().unwrap()).lines();
    daemon.signal(Signal::HUP);
    assert!(
        log.any(|line| line
            .unwrap()
            .contains("reloaded: removed port c; changed worker 0 (queues); kept 2 ports, 1 patch")),
        "SIGHUP did not reload"
    );

    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert!(!daemon.socket.exists(), "the control socket is left behind");
    let gone = daemon.ctl(&["ports"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).starts_with("millrace: no switch answers on "), "{gone:?}");
}

#[test]
fn a_second_switch_does_not_take_the_socket_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(directory.path(), TWO_SINKS);
    let file = directory.path().join("m.toml");
    let second = millrace(&["run", "--config", file.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another process already listens"), "{second:?}");
    assert_eq!(text(&daemon.ctl(&["shutdown"]).stdout), "The switch is stopping.\n");
    assert_eq!(daemon.wait(), 0);
}

#[test]
fn metrics_are_scraped_from_a_running_switch() {
    let directory = tempfile::tempdir().unwrap();
    // A port that was free a moment ago; the switch needs an explicit number.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _daemon = Daemon::start(directory.path(), &format!("{TWO_SINKS}\nmetrics.listen = '{address}'"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("millrace_uptime_seconds ") && page.ends_with("# EOF\n"), "{page}");
}
