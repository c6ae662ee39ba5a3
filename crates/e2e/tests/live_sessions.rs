//! Peers that attack the switch through what they share with it, beside two honest guests: descriptors, memory, sockets.

mod support;

use e2e::cpu;
use rustix::fd::BorrowedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, write};
use support::live::Live;
use support::rogue::{BUFFERS, HEADER, Rogue, TX};

/// Fills the counter and leaves the file description, which the switch has too, in blocking mode: a write waits for ever.
fn fill(event: BorrowedFd<'_>) {
    fcntl_setfl(event, fcntl_getfl(event).unwrap() | OFlags::NONBLOCK).unwrap();
    let mut amount = u64::MAX - 1;
    while amount > 0 {
        match write(event, &amount.to_ne_bytes()) {
            Ok(_) => {}
            Err(Errno::AGAIN) => amount /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(event, fcntl_getfl(event).unwrap() - OFlags::NONBLOCK).unwrap();
}

/// The guest asks for notifications with descriptors that can't be written to without waiting for it.
#[test]
fn full_notification_counters_in_blocking_mode() {
    let _alone = cpu::alone();
    let live = Live::new(&support::patch("a", "b"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    rogue.write(BUFFERS, &[0; 2048]);
    rogue.describe(TX, 0, BUFFERS, HEADER + 60, 0, 0);
    live.during(|attack| {
        while attack.goes_on() {
            rogue.events().for_each(fill);
            rogue.offer_all(TX, &[0]);
            attack.strike();
        }
    });
    drop(rogue);
    live.millrace.wait_down("a");
    live.finish();
}
