//! The events of a running switch, by `millrace ctl events`.

use super::{ctl, end, files, start, text, two_sinks};
use api::event::{Event, EventKind};
use api::part::PartKind;
use api::request::{EventsFollow, EventsList};
use client::Client;
use lab::millrace::Millrace;
use lab::millrace::config::sink;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

/// `millrace ctl events --follow`, which prints an event in each line.
struct Followed {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Followed {
    /// Follows the events after the one of this number.
    fn new(switch: &Millrace, since: u64) -> Followed {
        let since = since.to_string();
        let mut command = switch.control(&["events", "--follow", "--json", "--since", &since]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Followed { child, lines }
    }

    fn next(&mut self) -> EventKind {
        loop {
            let line = self.lines.next().expect("the events have ended").unwrap();
            let event: Event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if !is_of_load(&event) {
                return event.kind;
            }
        }
    }
}

/// Reports whether an event only says that the machine is busy.
fn is_of_load(event: &Event) -> bool {
    matches!(event.kind, EventKind::WorkerHung { .. } | EventKind::WorkerRecovered { .. })
}

fn listed(switch: &Millrace, arguments: &[&str]) -> Vec<Event> {
    let output = ctl(switch, &[&["events", "--json"], arguments].concat());
    let events = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Event>>();
    events.into_iter().filter(|event| !is_of_load(event)).collect()
}

fn up(port: &str) -> EventKind {
    EventKind::PortUp { port: port.into() }
}

#[test]
fn events_are_listed_and_followed() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), two_sinks());
    let first = listed(&switch, &[]);
    let kinds: Vec<_> = first.iter().map(|event| event.kind.clone()).collect();
    let version = env!("CARGO_PKG_VERSION").into();
    assert_eq!(kinds, [EventKind::Started { version }, up("a"), up("b")]);
    let last = first[2].seq;
    let mut followed = Followed::new(&switch, last);

    assert!(ctl(&switch, &["port", "add", "web", "--sink"]).status.success());
    assert_eq!(followed.next(), up("web"));
    let EventKind::PartAdded { kind: PartKind::Port, name, actions } = followed.next() else { panic!("not added") };
    assert!(name == "web" && actions.iter().any(|action| action.to_string() == "added port web"), "{actions:?}");
    // Nothing changes.
    assert!(ctl(&switch, &["port", "add", "web", "--sink"]).status.success());
    assert!(ctl(&switch, &["port", "set", "web", "--label", "pod=x"]).status.success());
    assert!(matches!(followed.next(), EventKind::PartChanged { name, .. } if name == "web"));
    assert!(ctl(&switch, &["port", "del", "web"]).status.success());
    assert!(matches!(followed.next(), EventKind::PartRemoved { name, .. } if name == "web"));

    let files = files(directory.path());
    files.configure((two_sinks(), sink("c"))).unwrap();
    switch.reload().unwrap();
    assert_eq!(followed.next(), up("c"));
    let EventKind::Reloaded { actions } = followed.next() else { panic!("not reloaded") };
    assert!(actions.iter().any(|action| action.to_string() == "added port c"), "{actions:?}");
    files.configure("port = 1").unwrap();
    assert!(switch.reload().is_err());
    assert!(matches!(followed.next(), EventKind::ReloadFailed { reason } if reason.contains("m.toml:1:8")));

    let output = ctl(&switch, &["events", "--last", "2"]);
    let shown: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(shown.len() == 2 && shown[0].contains("Z  reloaded: added port c"), "{shown:?}");
    assert_eq!(listed(&switch, &["--since", &last.to_string()]).len(), 7);

    // It follows until the switch ends, and says so.
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    let rest = followed.lines.by_ref().count();
    let ended = followed.child.wait_with_output().unwrap();
    assert!(
        ended.status.code() == Some(1) && text(&ended.stderr).contains("closed the connection"),
        "{rest} {ended:?}"
    );

    // One who comes back to another switch gets all of its events.
    let mut switch = start(directory.path(), two_sinks());
    let mut followed = Followed::new(&switch, last);
    assert!(matches!(followed.next(), EventKind::Started { .. }));
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    drop(followed.lines);
    followed.child.wait().unwrap();
}

/// The client gets the events between its two calls, too.
#[test]
fn a_client_that_lists_and_follows_misses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), two_sinks());
    let connect = || Client::connect(files(directory.path()).control).unwrap();
    let events = connect().call(&EventsList { since: None, last: Some(1) }).unwrap();
    let since = events[0].seq;
    assert!(ctl(&switch, &["port", "add", "x", "--sink"]).status.success());
    let mut follower = connect().follow(&EventsFollow { since: Some(since), learned: false }).unwrap();
    assert_eq!(follower.seq(), since);
    let mut next = || follower.find(|event| event.as_ref().is_ok_and(|event| !is_of_load(event))).unwrap().unwrap();
    assert_eq!(next().kind, up("x"));
    let added = next();
    assert!(matches!(added.kind, EventKind::PartAdded { .. }));
    assert!(added.seq > since && follower.seq() == added.seq);
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}
