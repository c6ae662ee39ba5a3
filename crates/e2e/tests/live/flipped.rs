//! A guest that changes its frames while the switch decides where they go: the judged bytes are sent.

use e2e::live::Live;
use e2e::virtio::rogue::{Rogue, SIZE, buffer};
use e2e::virtio::{Guest, Options};
use e2e::wait_for;
use lab::millrace::config::*;
use std::process::Command;

const VICTIM: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 9];
const ROGUE: [u8; 6] = [2, 0, 0, 0, 0, 6];

/// Bytes after the headers, which the switch does not check.
const PAYLOAD: [u8; 86] = [7; 86];

/// The beginnings between which the rogue's frames change.
type Beginnings = [Vec<u8>; 2];

/// Part of their rate that honest guests keep while two threads of the attacker are always busy.
const KEPT: f64 = 0.4;

/// Keeps the rogue's transmit queue full of frames that change all the time, and passes on frames that the others receive.
fn flip(
    live: &Live,
    rogue: &mut Rogue,
    beginnings: &Beginnings,
    others: &mut [&mut Guest],
    mut take: impl FnMut(usize, &[u8]) + Send,
) {
    rogue.fill(&[&beginnings[0][..], &PAYLOAD].concat());
    let scribbler = rogue.scribbler();
    live.during_keeping(KEPT, |attack| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while attack.continues() {
                    for beginning in beginnings {
                        (0..SIZE).for_each(|slot| scribbler.write(buffer(slot), beginning));
                    }
                }
            });
            while attack.continues() {
                rogue.send_all();
                for (number, other) in others.iter_mut().enumerate() {
                    let received = other.receive(64, |frame| {
                        take(number, frame);
                        Ok(())
                    });
                    (0..received.unwrap()).for_each(|_| attack.strike());
                }
            }
        });
    });
}

fn addresses(to: [u8; 6]) -> Vec<u8> {
    [to, ROGUE].concat()
}

fn tag(vid: u8) -> [u8; 4] {
    [0x81, 0, 0, vid]
}

fn connect(live: &Live, port: &str) -> Guest {
    Options::new(live.home.socket(port)).connect().unwrap()
}

/// Makes the switch learn the victim's address at port `v`.
fn teach(live: &Live, victim: &mut Guest) {
    let hello = [&[0xff; 6][..], &VICTIM, &[8, 0], &[0; 46]].concat();
    wait_for("the victim to be known", || {
        victim.reap().unwrap();
        victim.send(&[&hello], 1).unwrap();
        victim.flush();
        live.millrace.macs().iter().any(|entry| entry.mac == "02:00:00:00:00:01" && entry.port == "v").then_some(())
    });
}

#[test]
fn frames_for_a_learned_address_reach_no_other_guest() {
    let live = Live::new((["a", "v", "w"].map(vhost_user), bridge("br0", ["a", "v", "w"])));
    let (mut victim, mut other) = (connect(&live, "v"), connect(&live, "w"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a", "v", "w"]);
    teach(&live, &mut victim);
    let beginnings = [addresses(NOBODY), addresses(VICTIM)];
    let mut strangers = 0;
    flip(&live, &mut rogue, &beginnings, &mut [&mut victim, &mut other], |number, frame| {
        strangers += u64::from(number == 1 && frame[..6] == VICTIM);
    });
    assert_eq!(strangers, 0, "frames for the victim came to another port");
    live.finish();
}

#[test]
fn frames_leave_in_the_vlan_that_their_port_may_send_to() {
    let ports = [trunk(&[10], vhost_user("a")), trunk(&[10, 30], vhost_user("v")), access(30, vhost_user("w"))];
    let live = Live::new((ports, bridge("br0", ["a", "v", "w"])));
    let (mut trunk, mut access) = (connect(&live, "v"), connect(&live, "w"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a", "v", "w"]);
    let beginnings = [10, 30].map(|vid| [&addresses(NOBODY)[..], &tag(vid)].concat());
    let mut wrong = [0u64; 2];
    flip(&live, &mut rogue, &beginnings, &mut [&mut trunk, &mut access], |number, frame| {
        wrong[number] += u64::from(number == 1 || frame[12..16] != tag(10));
    });
    assert_eq!(wrong, [0, 0], "frames left in another VLAN");
    live.finish();
}

/// Returns the headers of a segment to a port.
fn to_tcp(port: u8) -> Vec<u8> {
    // IPv4: 126 bytes, TTL 64, TCP; then the ports.
    let ip = [0x45, 0, 0, 126, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 6, 10, 0, 0, 1];
    let tcp = [0x30, 0x39, 0, port, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0];
    [&addresses(VICTIM)[..], &[8, 0], &ip, &tcp].concat()
}

#[test]
fn headers_that_a_flow_drops_pass_in_no_frame() {
    let flows = (by_flows(bridge("br0", ["a", "v"])), listen("unix:of.sock"));
    let live = Live::new((["a", "v"].map(vhost_user), flows));
    for flow in ["priority=2,tcp,tp_dst=22,actions=drop", "priority=1,actions=NORMAL"] {
        let switch = format!("unix:{}", live.home.socket("of").display());
        let added = Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "add-flow", &switch, flow]).status();
        assert!(added.unwrap().success());
    }
    let mut victim = connect(&live, "v");
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a", "v"]);
    let mut dropped = 0;
    flip(&live, &mut rogue, &[22, 80].map(to_tcp), &mut [&mut victim], |_, frame| {
        dropped += u64::from(frame[36..38] == [0, 22]);
    });
    assert_eq!(dropped, 0, "frames to port 22 came through");
    live.finish();
}
