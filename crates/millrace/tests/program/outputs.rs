//! Outputs that can't be written, and signals that are not meant for it: the switch continues.

use super::terminal::Terminal;
use super::{end, files, start, two_sinks};
use lab::millrace::SOON;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Waits for a condition.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn answers(directory: &std::path::Path) -> bool {
    UnixStream::connect(files(directory).control).is_ok()
}

#[test]
fn a_log_without_a_reader_does_not_stop_the_switch() {
    let directory = tempfile::tempdir().unwrap();
    files(directory.path()).configure(two_sinks()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("run").arg("--config").arg(files(directory.path()).configuration).current_dir(directory.path());
    let mut switch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    // As `head -1` does.
    BufReader::with_capacity(1, switch.stderr.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    wait_for("the switch", || answers(directory.path()));
    for _ in 0..3 {
        signal(&switch, Signal::HUP);
    }
    for ignored in [Signal::USR1, Signal::USR2, Signal::XFSZ, Signal::PIPE] {
        signal(&switch, ignored);
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(switch.try_wait().unwrap().is_none() && answers(directory.path()), "the switch has ended");
    signal(&switch, Signal::TERM);
    assert!(switch.wait().unwrap().success());
    assert!(!files(directory.path()).control.exists(), "the socket stays");
}

#[test]
fn a_log_on_a_full_disk_does_not_stop_the_switch() {
    let directory = tempfile::tempdir().unwrap();
    files(directory.path()).configure(two_sinks()).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("run").arg("--config").arg(files(directory.path()).configuration).current_dir(directory.path());
    let mut switch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full).spawn().unwrap();
    wait_for("the switch", || answers(directory.path()));
    signal(&switch, Signal::TERM);
    assert!(switch.wait().unwrap().success());
}

#[test]
fn a_check_says_its_verdict_though_its_warnings_are_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.toml");
    std::fs::write(&file, "[[port]]\nname = 'a'\ndriver = 'sink'\n").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let mut check = command.arg("check").arg(&file).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    let mut verdict = String::new();
    check.stdout.take().unwrap().read_to_string(&mut verdict).unwrap();
    assert!(check.wait().unwrap().success() && verdict.contains("good"), "{verdict}");
}

/// As `timeout` of the GNU core utilities does.
#[test]
fn two_simultaneous_signals_count_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), two_sinks());
    switch.daemon.signal(Signal::TERM).unwrap();
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

#[test]
fn colours_and_drawing_are_for_terminals_and_users_that_want_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.toml");
    std::fs::write(&file, "port = 1\n").unwrap();
    let switch = start(directory.path(), two_sinks());
    let socket = switch.files().control.to_str().unwrap();
    let shown = |variable: &str, arguments: &[&str], last: &str| {
        let arguments = [&[variable, env!("CARGO_BIN_EXE_millrace")], arguments].concat();
        let mut terminal = Terminal::start("env", &arguments, 200, 50);
        terminal.wait_for(last);
        terminal.written()
    };
    let check = ["check", file.to_str().unwrap()];
    let top = ["top", "--interval", "100ms", "--count", "2", "--socket", socket];
    for plain in ["NO_COLOR=1", "NO_COLOR=no", "TERM=dumb"] {
        let written = shown(plain, &check, "help:");
        assert!(!written.contains('\x1b'), "{plain}: {written:?}");
    }
    assert!(shown("NO_COLOR=", &check, "help:").contains('\x1b'));
    let written = shown("TERM=dumb", &top, "DROPS/s  MAPPING");
    assert!(!written.contains('\x1b'), "{written:?}");
    assert!(shown("TERM=xterm", &top, "DROPS/s").contains("\x1b[?1049h"));
}
