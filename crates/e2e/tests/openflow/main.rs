//! Forwarding by OpenFlow: real controllers set flows, and frames follow them, byte by byte.

mod cases;
mod controllers;
mod differences;
mod faucet;
mod flows;
mod frames;
mod mapped;
mod relay;
mod rewritten_tcp;
mod sharing;
mod spanning_tree;

use std::process::Command;

use api::flow::{Flow, Flows};
use api::request;
use client::Client;
use e2e::virtio::{Guest, Options};
use e2e::{Home, Millrace, wait_for};
use lab::millrace::config::*;

/// Flows of each kind for UDP packets that come in by the first port, by their destination port.
const FROM_WAN: [&str; 6] = [
    "priority=5,in_port=1,udp,udp_dst=1,actions=output:2",
    "priority=5,in_port=1,udp,udp_dst=2,actions=output:3",
    "priority=5,in_port=1,udp,udp_dst=3,actions=FLOOD",
    "priority=5,in_port=1,udp,udp_dst=4,actions=set_field:198.51.100.2->ip_dst,output:2",
    "priority=5,in_port=1,udp,udp_dst=5,actions=IN_PORT",
    "priority=5,in_port=1,udp,udp_dst=6,actions=drop",
];

/// Returns ports of guests in a bridge with `openflow`.
fn switched(ports: &[&str]) -> RawFile {
    let guests: Vec<_> = ports.iter().map(|port| vhost_user(port)).collect();
    file((guests, by_flows(bridge("br0", ports.iter().copied()))))
}

/// Returns a channel for `ovs-ofctl`.
fn channel() -> RawOpenflow {
    listen("unix:of.sock")
}

/// Returns a channel with this treatment of frames while there are no flows.
fn failing(fail_mode: FailMode) -> RawOpenflow {
    RawOpenflow { fail_mode: fail_mode.into(), ..channel() }
}

/// Returns a port to a backend at the port `far` of another switch.
fn towards(name: &str, home: &Home, far: &str) -> RawPort {
    virtio_user(name, &home.socket(far))
}

/// Builds the command `ovs-ofctl -O OpenFlow13 COMMAND SWITCH ARGUMENTS`.
fn ofctl(home: &Home, command: &str, arguments: &[&str]) -> Command {
    let mut ofctl = Command::new("ovs-ofctl");
    ofctl.args(["-O", "OpenFlow13", "-t", "120", command, &format!("unix:{}", home.socket("of").display())]);
    ofctl.args(arguments);
    ofctl
}

/// Runs `ovs-ofctl`; returns whether it succeeded, and its output.
fn try_of(home: &Home, command: &str, arguments: &[&str]) -> (bool, String) {
    let output = ofctl(home, command, arguments).output();
    let output = output.expect("ovs-ofctl runs; it is in the Debian package openvswitch-common");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success() && !said.contains("OFPT_ERROR"), said)
}

/// Runs `ovs-ofctl`, which must succeed.
fn of(home: &Home, command: &str, arguments: &[&str]) -> String {
    let (good, said) = try_of(home, command, arguments);
    assert!(good, "{command} {arguments:?}: {said}");
    said
}

/// Connects guests at these ports.
fn guests<const N: usize>(home: &Home, millrace: &Millrace, ports: [&str; N]) -> [Guest; N] {
    let guests = ports.map(|port| Options::new(home.socket(port)).connect().unwrap());
    millrace.wait_up(&ports);
    guests
}

/// Sends these frames in one burst.
fn send(guest: &mut Guest, frames: &[Vec<u8>]) {
    guest.reap().unwrap();
    for (number, frame) in frames.iter().enumerate() {
        assert!(guest.send(&[frame], 1 + number % 3).unwrap());
    }
    guest.flush();
}

/// Waits until each guest has received the expected number of frames, and compares them. Further frames show up in the next
/// comparison.
fn expect(guests: &mut [Guest], wanted: &[&[Vec<u8>]]) {
    let mut came = vec![Vec::new(); wanted.len()];
    wait_for("the frames", || {
        for (guest, came) in guests.iter_mut().zip(&mut came) {
            guest
                .receive(64, |bytes| {
                    came.push(bytes.to_vec());
                    Ok(())
                })
                .unwrap();
        }
        came.iter().zip(wanted).all(|(came, wanted)| came.len() >= wanted.len()).then_some(())
    });
    for (index, (came, wanted)) in came.iter().zip(wanted).enumerate() {
        let first = came.iter().zip(*wanted).position(|(came, wanted)| came != wanted);
        assert!(
            came == wanted,
            "guest {index}: {} frames instead of {}; the first one that differs is {first:?}: {:02x?} instead of {:02x?}",
            came.len(),
            wanted.len(),
            first.map(|first| &came[first]),
            first.map(|first| &wanted[first]),
        );
    }
}

fn shown(home: &Home) -> Flows {
    Client::connect(home.path("control")).unwrap().call(&request::Flows {}).unwrap()
}

fn flow(home: &Home, matches: &str) -> Flow {
    let flows = shown(home).flows;
    let found = flows.iter().find(|flow| flow.matches == matches).cloned();
    found.unwrap_or_else(|| panic!("there is no flow for {matches}: {flows:?}"))
}

fn dropped(millrace: &Millrace, port: &str, reason: &str) -> u64 {
    millrace.port(port).drops().get(reason).copied().unwrap_or(0)
}
