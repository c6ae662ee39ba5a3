//! A guest whose frames are expensive to forward, on the worker of two honest ones.

use e2e::cable::quiet_namespace;
use e2e::live::Live;
use e2e::poller;
use e2e::virtio::rogue::{Rogue, TX};
use lab::millrace::config::*;
use std::time::Duration;

/// Ports that each frame is flooded to, with a system call for each.
const TAPS: usize = 40;

/// The guest sends long frames to an unknown address, all the time.
#[test]
fn long_frames_are_flooded_to_many_ports() {
    let namespace = quiet_namespace().unwrap();
    let names: Vec<String> = (0..TAPS).map(|number| format!("tap{number}")).collect();
    let taps: Vec<RawPort> = names.iter().map(|name| tap(name, name)).collect();
    let bridge = bridge("br0", names.iter().map(String::as_str).chain(["a"]));
    let live = Live::inside(&namespace, poller(), (taps, vhost_user("a"), bridge));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    rogue.fill(&[&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 6, 0x90, 0][..], &[0; 1486]].concat());
    live.during(|attack| {
        let mut sent = 0;
        while attack.continues() {
            rogue.send_all();
            if std::mem::replace(&mut sent, rogue.used_index(TX)) != sent {
                attack.strike();
            }
            // The attacker itself leaves the processor to honest guests.
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    live.finish();
}
