//! Ports that come and go by calls, while the switch runs and while it is killed.

use super::{ctl, end, files, start, text};
use api::part::{Change, Effect, Owner};
use api::port::PortSummary;
use api::request::{PortAdd, PortDel};
use client::{Client, ClientError, keys};
use lab::millrace::{Millrace, Start};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

const FILE: &str = "[[port]]\nname = \"wan\"\ndriver = \"sink\"\nbridge = \"br0\"\n[[bridge]]\nname = \"br0\"\n\
                    [confinement]\ndirectories = [\"pods\"]\n";

/// Starts a switch that keeps added ports.
pub(super) fn start_keeping(home: &Path) -> Millrace {
    fs::create_dir_all(home.join("ports.d")).unwrap();
    let files = files(home);
    files.configure(FILE).unwrap();
    let mut file = OpenOptions::new().append(true).open(&files.configuration).unwrap();
    file.write_all(b"ports = \"ports.d\"\nmake-directories = true\n").unwrap();
    Start::new(Path::new(env!("CARGO_BIN_EXE_millrace"))).start(files).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn ports(switch: &Millrace) -> Vec<PortSummary> {
    serde_json::from_slice(&ctl(switch, &["port", "list", "--json"]).stdout).unwrap()
}

#[test]
fn a_port_is_added_listed_changed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let mut switch = start_keeping(home.path());
    let run = |arguments: &[&str]| {
        let output = ctl(&switch, arguments);
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let add = ["port", "add", "web", "--vhost-user", "pods/w.sock", "--bridge", "br0", "--label", "pod=ns/web"];
    let (done, out, _) = run(&[&add[..], &["--wait", "60s", "--json"]].concat());
    let change: Change = serde_json::from_str(&out).unwrap();
    assert!(done && change.effect == Effect::Added && change.name == "web", "{out}");
    assert!(home.path().join("pods/w.sock").exists());
    let (done, out, _) = run(&add);
    assert!(done && out.starts_with("nothing to do for port web"), "{out}");
    let (done, _, error) = run(&["port", "add", "web", "--vhost-user", "pods/other.sock"]);
    assert!(!done && error.contains("`socket` is \"pods/w.sock\", not \"pods/other.sock\""), "{error}");
    let (done, _, error) = run(&["port", "add", "far", "--vhost-user", "/etc/x.sock"]);
    assert!(!done && error.contains("`directories` of [confinement]"), "{error}");
    let (done, _, error) = run(&["port", "del", "wan"]);
    assert!(!done && error.contains("is the configuration file's"), "{error}");

    // Nobody listens there yet.
    let client = ["port", "add", "vm", "--vhost-user", "pods/vm.sock", "--mode", "client", "--bridge", "br0"];
    let (done, _, error) = run(&[&client[..], &["--wait", "10ms"]].concat());
    assert!(!done && error.contains("port vm is not open: "), "{error}");
    let _qemu = UnixListener::bind(home.path().join("pods/vm.sock")).unwrap();
    let (done, _, error) = run(&[&client[..], &["--wait", "60s"]].concat());
    assert!(done, "{error}");

    let (_, out, _) = run(&["port", "list", "--label", "pod", "--json"]);
    let listed: Vec<PortSummary> = serde_json::from_str(&out).unwrap();
    assert!(listed.len() == 1 && listed[0].labels["pod"] == "ns/web" && listed[0].owner == Owner::Api, "{out}");
    assert!(run(&["port", "list", "--label", "pod=other"]).1.contains("There is no such port"));
    let (done, _, error) = run(&["port", "set", "web", "--queues", "2"]);
    assert!(!done && error.contains("Allow it with --reopen"), "{error}");
    let (done, out, _) = run(&["port", "set", "web", "--queues", "2", "--reopen"]);
    assert!(done && out.contains("reopened port web"), "{out}");
    assert!(run(&["bridge", "add", "br1", "--ageing", "60"]).0 && run(&["port", "set", "web", "--bridge", "br1"]).0);
    let (done, out, _) = run(&["reload"]);
    assert!(done && out.starts_with("nothing changed"), "{out}");
    assert!(run(&["port", "add", "deep", "--vhost-user", "pods/x/y/s.sock", "--wait", "60s"]).0);
    assert_eq!(end(&mut switch, Signal::TERM), 0);

    // The machine was started again.
    fs::remove_dir_all(home.path().join("pods")).unwrap();
    let mut switch = start_keeping(home.path());
    assert!(home.path().join("pods/x/y/s.sock").exists() && home.path().join("pods/w.sock").exists());
    assert!(ctl(&switch, &["port", "del", "deep"]).status.success());
    let back: Vec<_> = ports(&switch).into_iter().map(|port| (port.name, port.forwarding)).collect();
    let expected = [("wan", "br0"), ("vm", "br0"), ("web", "br1")];
    assert_eq!(back, expected.map(|(name, bridge)| (name.to_owned(), format!("bridge {bridge}"))));
    let run = |arguments: &[&str]| text(&ctl(&switch, arguments).stdout);
    assert!(run(&["port", "del", "web"]).starts_with("removed port web"));
    assert!(run(&["port", "del", "web"]).starts_with("nothing to do"));
    assert!(run(&["bridge", "del", "br1"]).starts_with("removed bridge br1"));
    for name in ["a", "b"] {
        run(&["port", "add", name, "--sink"]);
    }
    assert!(run(&["patch", "add", "b", "a"]).starts_with("added patch a+b"));
    assert!(run(&["patch", "del", "a", "b"]).starts_with("removed patch a+b"));
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

/// The fate of a port as its client knows it: `None` if the switch was killed before it answered.
type Known = BTreeMap<String, Option<bool>>;

/// Adds and removes ports until the switch is gone, and tells of each answer.
fn call_until_killed(socket: &Path, client: usize, seed: u64, known: &mut Known, answered: &Sender<()>) {
    let Ok(mut to) = Client::connect(socket) else { return };
    let mut random = seed | 1;
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let name = format!("p{client}_{}", random % 5);
        let adds = random & 64 == 0;
        let had = known.insert(name.clone(), None).unwrap_or(Some(false));
        let answer = match adds {
            true => {
                let port = [("name", name.as_str()), ("driver", "sink"), ("bridge", "br0")];
                to.call(&PortAdd { keys: keys(port) })
            }
            false => to.call(&PortDel { name: name.clone() }),
        };
        match answer {
            Ok(answer) => {
                let effect = if had == Some(adds) {
                    Effect::Unchanged
                } else if adds {
                    Effect::Added
                } else {
                    Effect::Removed
                };
                assert!(had.is_none() || answer.effect == effect, "{had:?} {answer}");
                known.insert(name, Some(adds));
                answered.send(()).unwrap();
            }
            Err(ClientError::Io(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_port_is_there_or_not_after_a_kill_and_never_half() {
    const CLIENTS: usize = 3;
    let home = tempfile::tempdir().unwrap();
    let mut known = vec![Known::new(); CLIENTS];
    for round in 0..6_u64 {
        let mut switch = start_keeping(home.path());
        let socket = files(home.path()).control;
        let (answered, answers) = channel();
        std::thread::scope(|scope| {
            for (client, known) in known.iter_mut().enumerate() {
                let (socket, seed) = (&socket, 1 + round * 977 + client as u64 * 7919);
                let answered = answered.clone();
                scope.spawn(move || call_until_killed(socket, client, seed, known, &answered));
            }
            drop(answered);
            for _ in 0..1 + (round * 7919 + 31) % 97 {
                answers.recv().unwrap();
            }
            switch.daemon.signal(Signal::KILL).unwrap();
        });
        // A client that was connected calls until it gets no answer.
        assert!(known.iter().flat_map(Known::values).any(Option::is_none));
        drop(switch);
        let mut switch = start_keeping(home.path());
        assert!(!switch.daemon.log().since(0).iter().any(|line| line.contains("left out")));
        let there: Vec<_> = ports(&switch).into_iter().map(|port| port.name).collect();
        for (name, fate) in known.iter_mut().flatten() {
            let is_there = there.contains(name);
            assert!(fate.is_none_or(|known| known == is_there), "{name} should be there: {fate:?}");
            *fate = Some(is_there);
        }
        end(&mut switch, Signal::TERM);
    }
    assert!(known.iter().all(|known| !known.is_empty()));
}

#[test]
fn what_does_not_fit_any_more_is_left_out_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("ports.d")).unwrap();
    for (file, keys) in [("wan", "name = \"wan\""), ("x", "name = \"x\"\nbridge = \"br9\""), ("y", "name = \"y\"")] {
        let path = home.path().join("ports.d").join(format!("{file}.toml"));
        fs::write(path, format!("[[port]]\ndriver = \"sink\"\n{keys}\n")).unwrap();
    }
    let mut switch = start_keeping(home.path());
    let names: Vec<_> = ports(&switch).into_iter().map(|port| port.name).collect();
    assert_eq!(names, ["wan", "y"]);
    let log = switch.daemon.log().since(0);
    let left: Vec<_> = log.iter().filter(|line| line.contains("left out")).collect();
    assert!(left.len() == 2 && left[1].contains("there is no bridge `br9`"), "{left:?}");
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

/// Without a directory, added ports are gone when the switch is.
#[test]
fn ports_need_a_directory_to_come_back() {
    let home = tempfile::tempdir().unwrap();
    let mut switch = start(home.path(), FILE.split("[confinement]").next().unwrap());
    assert!(ctl(&switch, &["port", "add", "a", "--sink"]).status.success());
    assert_eq!((ports(&switch).len(), end(&mut switch, Signal::TERM)), (2, 0));
    let mut switch = start(home.path(), FILE.split("[confinement]").next().unwrap());
    assert_eq!((ports(&switch).len(), end(&mut switch, Signal::TERM)), (1, 0));
}
