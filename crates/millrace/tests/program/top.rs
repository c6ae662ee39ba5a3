//! The live view: on a terminal, and as lines.

use super::terminal::Terminal;
use super::{end, millrace, start, text};
use lab::millrace::Millrace;
use lab::millrace::config::{Generator, RawFile, file, patch, port, sink};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;

/// Returns a patch to a port of this name, and a port that is in none.
fn ports(drain: &str) -> RawFile {
    let source = |name, rate: i64| port(name, Generator { rate: rate.into(), ..Generator::default() });
    file((source("a", 10_000), sink(drain), source("c", 1000), patch("a", drain)))
}

fn top(switch: &Millrace) -> Terminal {
    top_by(switch, Terminal::start)
}

fn top_by(switch: &Millrace, show: fn(&'static str, &[&str], u16, u16) -> Terminal) -> Terminal {
    let arguments = ["top", "--socket", switch.files().control.to_str().unwrap(), "--interval", "50ms"];
    let mut terminal = show(env!("CARGO_BIN_EXE_millrace"), &arguments, 120, 24);
    terminal.wait_for("patch b");
    terminal
}

#[test]
fn an_operator_looks_at_all_views_and_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let switch = start(directory.path(), ports("b"));
    let mut terminal = top(&switch);
    terminal.wait_for("generator");
    for (key, shown) in [
        ("2", "unconnected"),
        ("\t", "CYCLES"),
        ("\x1b[C", "There are no mappings."),
        ("5", "Aggregation is not configured."),
        ("?", "service chains whose packets go to the next hop"),
        ("?1", "takes everything"),
        ("ss", "STATE▼"),
        ("/zz", "No row has the text of the filter."),
        ("\x1b", "patch a"),
        ("p", "PAUSED"),
    ] {
        terminal.press(key);
        terminal.wait_for(shown);
    }
    terminal.resize(60, 12);
    terminal.wait_until("a small screen", |lines| lines[11].starts_with("←→ view") && lines[12].is_empty());
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_switch_that_goes_away_is_tried_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), ports("b"));
    let mut terminal = top(&switch);
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    terminal.wait_for("trying again: no switch answers on ");
    let _again = start(directory.path(), ports("drain"));
    terminal.wait_for("patch drain");
    terminal.wait_for("3 ports up");
    terminal.press("\x03");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let switch = start(directory.path(), ports("b"));
    for signal in [Signal::TERM, Signal::HUP] {
        let terminal = top(&switch);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert_eq!(terminal.end().signal(), Some(signal.as_raw()));
    }
}

#[test]
fn it_ends_with_its_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let switch = start(directory.path(), ports("b"));
    for terminal in [top(&switch), top_by(&switch, Terminal::start_without_signals)] {
        let ended = terminal.hang_up();
        // By the signal, or by itself: with an error if it was just about to draw.
        let is_by_signal = ended.signal() == Some(Signal::HUP.as_raw());
        assert!(is_by_signal || matches!(ended.code(), Some(0 | 1)), "{ended}");
    }
}

#[test]
fn lines_for_logs_and_programs_end_after_their_count() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), ports("b"));
    let socket = switch.files().control.to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        millrace(&[&["top", "--socket", &socket, "--interval", "100ms", "--count", "2"], arguments].concat())
    };
    for arguments in [&[][..], &["--plain"]] {
        let plain = text(&run(arguments).stdout);
        assert_eq!(plain.matches("DROPS/s  MAPPING").count(), 2, "{plain}");
        assert!(plain.contains("patch b") && plain.contains("unconnected") && plain.contains("runs"), "{plain}");
        assert!(!plain.contains('\x1b'), "{plain:?}");
    }
    let json = text(&run(&["--json"]).stdout);
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{json}");
    assert!(lines[1]["ports"][0]["rx_packets_per_second"].as_f64().unwrap() > 0.0, "{json}");
    assert_eq!((&lines[1]["ports"][1]["port"], &lines[1]["drops"][0]["port"]), (&"b".into(), &"c".into()), "{json}");
    assert!(lines[1]["workers"][0]["stages"].as_object().unwrap().contains_key("receive"), "{json}");

    assert_eq!(end(&mut switch, Signal::TERM), 0);
    let gone = run(&[]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).starts_with("millrace: no switch answers on "), "{gone:?}");
}
