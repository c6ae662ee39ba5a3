//! Messages of the switch to its service manager.

use super::{ctl, end, files, millrace, start_by, text, two_sinks};
use lab::millrace::config::{patch, sink, vhost_user};
use lab::millrace::{SOON, Start};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        Manager(socket)
    }

    /// Waits for a message with this line, and returns those before it.
    fn wait(&self, line: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let length = self.0.recv(&mut bytes).unwrap_or_else(|error| panic!("no {line} after {before:?}: {error}"));
            let message = text(&bytes[..length]);
            if message.lines().any(|one| one == line) {
                return before;
            }
            before.push(message);
        }
    }
}

#[test]
fn a_service_manager_is_told_of_the_start_of_reloads_and_of_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = Manager::new(&socket);
    let start = Start::new(Path::new(env!("CARGO_BIN_EXE_millrace"))).env("NOTIFY_SOCKET", socket.to_str().unwrap());
    let start = start.env("WATCHDOG_USEC", "300000");
    let mut switch = start_by(start, directory.path(), two_sinks());
    let started = manager.wait("READY=1").concat();
    assert!(!started.contains("RELOADING"), "{started}");
    // It goes on without an end.
    for _ in 0..3 {
        manager.wait("WATCHDOG=1");
    }

    files(directory.path()).configure((two_sinks(), sink("c"))).unwrap();
    assert!(ctl(&switch, &["reload"]).status.success());
    manager.wait("RELOADING=1");
    let during = manager.wait("READY=1").concat();
    assert!(!during.contains("STOPPING"), "{during}");
    manager.wait("STATUS=ports: 3, workers: 1");

    // A reload that is refused leaves the switch ready.
    files(directory.path()).configure("port = 1").unwrap();
    switch.daemon.signal(Signal::HUP).unwrap();
    manager.wait("RELOADING=1");
    manager.wait("READY=1");

    assert_eq!(end(&mut switch, Signal::TERM), 0);
    manager.wait("STOPPING=1");
}

#[test]
fn a_port_is_open_when_the_switch_is_ready() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = Manager::new(&socket);
    files(directory.path()).configure((vhost_user("vm1"), sink("b"), patch("vm1", "b"))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["run", "--config"])
        .arg(&files(directory.path()).configuration)
        .env("NOTIFY_SOCKET", &socket)
        .spawn()
        .unwrap();
    manager.wait("READY=1");
    let port = UnixStream::connect(directory.path().join("vm1.sock"));
    let version = UnixStream::connect(directory.path().join("c.sock"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    port.expect("the port's socket");
    version.expect("the control socket");
}

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

#[test]
fn the_unit_is_understood_by_systemd_and_keeps_much_away() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd/system");
    fs::create_dir_all(&units).unwrap();
    fs::copy(packaged("millrace.service"), units.join("millrace.service")).unwrap();
    // Units that every unit depends on, and the program.
    for target in ["sysinit", "basic", "shutdown", "multi-user", "network", "network-pre"] {
        fs::write(units.join(format!("{target}.target")), "[Unit]\n").unwrap();
    }
    let bin = root.path().join("usr/bin");
    fs::create_dir(&bin).unwrap();
    fs::copy("/bin/true", bin.join("millrace")).unwrap();
    let root = format!("--root={}", root.path().display());
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").arg(&root).args(arguments).arg("millrace.service").output();
        output.expect("this test needs the Debian package systemd")
    };
    let verified = analyze(&["verify", "--man=no"]);
    assert!(verified.status.success() && verified.stderr.is_empty(), "{}", text(&verified.stderr));
    // Tenths of an exposure, from 0 for none to 100: a service without any restrictions has 96.
    let exposed = analyze(&["security", "--offline=true", "--threshold=45", "--no-pager"]);
    assert!(exposed.status.success(), "{}{}", text(&exposed.stdout), text(&exposed.stderr));
}

#[test]
fn the_packaged_configuration_and_its_examples_are_good() {
    let directory = tempfile::tempdir().unwrap();
    let packaged = fs::read_to_string(packaged("millrace.toml")).unwrap();
    let keys = ["[[", "name = ", "driver = ", "socket", "ports = ", "interface = ", "cpu = ", "idle = "];
    let enabled = |line: &str| {
        let example = line.strip_prefix("# ").filter(|rest| keys.iter().any(|key| rest.starts_with(key)));
        format!("{}\n", example.unwrap_or(line))
    };
    let enabled: String = packaged.lines().map(enabled).collect();
    let without = |section: &str| {
        let (before, after) = enabled.split_once(section).unwrap();
        format!("{before}{}", after.split_once("]\n").unwrap().1)
    };
    let examples = [
        (packaged.clone(), "0 ports, 0 patches, 0 bridges and 1 workers"),
        (without("[[bridge]]"), "3 ports, 1 patches, 0 bridges and 1 workers"),
        (without("[[patch]]"), "3 ports, 0 patches, 1 bridges and 1 workers"),
    ];
    for (example, counts) in examples {
        let file = directory.path().join("m.toml");
        fs::write(&file, &example).unwrap();
        let checked = millrace(&["check", file.to_str().unwrap()]);
        assert!(text(&checked.stdout).ends_with(&format!("good, with {counts}\n")), "{example}\n{checked:?}");
    }
}
