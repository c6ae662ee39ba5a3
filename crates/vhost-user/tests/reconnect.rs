//! Endless reconnects without a leaked descriptor.
//!
//! A single test, because it counts the descriptors of the process.
#![allow(missing_docs)]

mod support;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::{Bench, PACKED, SPLIT, open_descriptors, wait_for};
use vhost_user::Mode;

fn frontend_comes_back(mode: Mode) {
    let bench = Bench::new(mode, 2);
    for round in 0..20 {
        let mut guest = bench.guest(if round % 2 == 0 { SPLIT } else { PACKED });
        guest.exchange(50);
        drop(guest);
        bench.echo.wait_disconnected();
    }
}

fn backend_comes_back(mode: Mode) {
    let mut bench = Bench::new(mode, 1);
    for round in 0..20 {
        let mut guest = bench.guest(if round % 2 == 0 { PACKED } else { SPLIT });
        guest.exchange(50);
        bench.stop();
        bench.echo.wait_disconnected();
        wait_for("the guest to notice", || (!guest.link.as_ref().unwrap().is_connected()).then_some(()));
        bench.start();
    }
}

fn thousands_of_connects() {
    let bench = Bench::new(Mode::Server, 1);
    for _ in 0..5000 {
        drop(bench.raw());
    }
    let mut guest = bench.guest(PACKED);
    guest.exchange(50);
}

/// A device whose peer accepts and hangs up must not spin.
fn a_peer_that_hangs_up() {
    let bench = Bench::new(Mode::Client, 1);
    let listener = std::os::unix::net::UnixListener::bind(&bench.socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let accept = || drop::<UnixStream>(wait_for("a connection", || Some(listener.accept().ok()?.0)));
    accept();
    let began = Instant::now();
    // It pauses for a tenth of a second before each of these.
    (0..5).for_each(|_| accept());
    assert!(began.elapsed() > Duration::from_millis(300), "five connections within {:?}", began.elapsed());
}

#[test]
fn connections_without_end() {
    // Descriptors that the first use opens and keeps.
    frontend_comes_back(Mode::Server);
    let before = open_descriptors();
    let none_left = |after: &str| {
        wait_for(&format!("{before} descriptors again, after {after}"), || {
            (open_descriptors() <= before).then_some(())
        });
    };
    for mode in [Mode::Server, Mode::Client] {
        frontend_comes_back(mode);
        none_left(&format!("a frontend that comes back, {mode:?}"));
        backend_comes_back(mode);
        none_left(&format!("a backend that comes back, {mode:?}"));
    }
    thousands_of_connects();
    none_left("thousands of connects");
    a_peer_that_hangs_up();
    none_left("a peer that hangs up");
}
