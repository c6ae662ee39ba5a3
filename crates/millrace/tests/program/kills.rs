//! A switch that is killed before each step of a change.

use super::parts::{ports, start_keeping};
use api::request::{PortAdd, PortDel, Version};
use client::{Client, ClientError, keys};
use lab::millrace::Millrace;
use rustix::process::Signal;
use std::os::unix::net::UnixStream;

/// System calls that are no steps: all that they do ends with the process.
const INSIDE: [i64; 10] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_rt_sigprocmask,
];

/// A call of the API.
#[derive(Clone, Copy, Debug)]
enum Call {
    Add,
    Remove,
}

impl Call {
    fn make(self, client: &mut Client) -> Result<(), ClientError> {
        let port = [("name", "web"), ("driver", "vhost-user"), ("socket", "pods/w.sock"), ("bridge", "br0")];
        match self {
            Call::Add => client.call(&PortAdd { keys: keys(port) }).map(drop),
            Call::Remove => client.call(&PortDel { name: "web".into() }).map(drop),
        }
    }
}

fn connect(switch: &Millrace) -> Client {
    Client::connect(&switch.files().control).unwrap()
}

/// Makes a call, and kills the switch before this step of it. Returns whether it has answered, and the step's system call, if the
/// call has that many.
fn kill_before(step: usize, switch: &mut Millrace, change: Call) -> (bool, Option<i64>) {
    let mut client = connect(switch);
    client.call(&Version {}).unwrap();
    // The connection by which the start was waited for may not have ended yet.
    let halted = switch.wait_for("one connection", || Ok(switch.daemon.halt("control").ok()));
    let mut halt = halted.unwrap_or_else(|error| panic!("{error}"));
    // It has read all that there is, and waits.
    while halt.next_call().unwrap() != libc::SYS_ppoll {}
    // The client stays connected when it has the answer.
    let caller = std::thread::spawn(move || (change.make(&mut client).is_ok(), client));
    while halt.next_call().unwrap() != libc::SYS_read {}
    let steps = std::iter::from_fn(|| Some(halt.next_call().unwrap())).filter(|call| !INSIDE.contains(call));
    // When it has answered, it waits for the next call.
    let call = steps.take_while(|&call| call != libc::SYS_ppoll).nth(step);
    switch.daemon.signal(Signal::KILL).unwrap();
    drop(halt);
    (caller.join().unwrap().0, call)
}

#[test]
fn a_port_is_there_or_not_whichever_step_of_a_change_the_switch_was_killed_before() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("pods/w.sock");
    for (changes, before, after) in [(Call::Add, Call::Remove, true), (Call::Remove, Call::Add, false)] {
        let mut fates = Vec::new();
        let mut switch = start_keeping(home.path());
        loop {
            before.make(&mut connect(&switch)).unwrap();
            let (answered, call) = kill_before(fates.len(), &mut switch, changes);
            drop(switch);
            switch = start_keeping(home.path());
            assert_eq!(switch.daemon.log().find(0, |line| line.contains("left out")), None);
            let is_there = ports(&switch).iter().any(|port| port.name == "web");
            assert!(!answered || is_there == after, "it was answered before {call:?}");
            assert_eq!(UnixStream::connect(&socket).is_ok(), is_there, "{call:?}");
            fates.push(is_there);
            if call.is_none() {
                break;
            }
        }
        let kept: Vec<_> = std::fs::read_dir(home.path().join("ports.d")).unwrap().collect();
        assert!(kept.len() == usize::from(after), "{kept:?}");
        println!("{changes:?}: {fates:?}");
        // One step makes the change, and the last one is the answer.
        let done = fates.iter().position(|&is_there| is_there == after).unwrap();
        assert!(
            done > 0 && done < fates.len() - 1 && fates[done..].iter().all(|&is_there| is_there == after),
            "{fates:?}"
        );
    }
}
