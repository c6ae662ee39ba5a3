//! This crate's frontend and backend against each other, with frames through the queues that they hand over.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use support::{Bench, Event, PACKED, PACKED_IN_ORDER, SPLIT};
use vhost_user::Mode;
use vhost_user::backend::{Options, Service};
use vhost_user::frontend::{FrontendError, FrontendOptions, Link};
use virtqueue::memory::Arena;

fn frames_flow(mode: Mode, pairs: u16, features: u64) {
    let mut bench = Bench::new(mode, pairs);
    let mut guest = bench.guest(features);
    guest.exchange(5000);
    assert!(guest.link.as_ref().unwrap().is_connected());
    let line = bench.echo.line.lock().unwrap().clone();
    assert!(line.contains(if features == SPLIT { "split" } else { "packed" }), "{line}");
    assert!(line.contains(&format!("; {pairs} pair")), "{line}");
    bench.stop();
    assert!(!guest.link.as_ref().unwrap().is_connected());
    assert!(bench.echo.wait_disconnected().contains("this side"));
}

#[test]
fn split_one_pair_device_listens() {
    frames_flow(Mode::Server, 1, SPLIT);
}

#[test]
fn split_two_pairs_device_listens() {
    frames_flow(Mode::Server, 2, SPLIT);
}

#[test]
fn split_one_pair_device_connects() {
    frames_flow(Mode::Client, 1, SPLIT);
}

#[test]
fn split_two_pairs_device_connects() {
    frames_flow(Mode::Client, 2, SPLIT);
}

#[test]
fn packed_one_pair_device_listens() {
    frames_flow(Mode::Server, 1, PACKED);
}

#[test]
fn packed_two_pairs_device_listens() {
    frames_flow(Mode::Server, 2, PACKED);
}

#[test]
fn packed_one_pair_device_connects() {
    frames_flow(Mode::Client, 1, PACKED);
}

#[test]
fn packed_two_pairs_device_connects() {
    frames_flow(Mode::Client, 2, PACKED_IN_ORDER);
}

#[test]
fn a_guest_may_use_fewer_pairs_than_there_are() {
    let bench = Bench::new(Mode::Server, 4);
    let mut guest = support::Guest::link(&bench.socket, Mode::Server, 1, PACKED);
    guest.exchange(100);
}

#[test]
fn a_guest_that_wants_more_pairs_is_told() {
    let bench = Bench::new(Mode::Server, 1);
    let options = options(&bench.socket, 2);
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let error = Link::establish(&options, &mut arena, None, &AtomicBool::new(false)).err().unwrap();
    assert!(matches!(error, FrontendError::TooFewQueues { wanted: 2, offered: 1 }), "{error}");
    bench.echo.wait_disconnected();
    bench.still_works();
}

#[test]
fn disconnecting_lets_the_guest_come_back() {
    let bench = Bench::new(Mode::Server, 1);
    let mut guest = bench.guest(PACKED);
    guest.exchange(10);
    bench.service.as_ref().unwrap().hangup().disconnect();
    bench.ended("disconnected by this side");
    assert!(!guest.link.as_ref().unwrap().is_connected());
}

#[test]
fn queues_stop_before_the_owner_hears_of_the_end() {
    let bench = Bench::new(Mode::Server, 2);
    drop(bench.guest(SPLIT));
    let mut running = 0;
    bench.echo.wait("the end", |event| match event {
        Event::Disconnected(_) => Some(()),
        _ => None,
    });
    drop(bench.guest(SPLIT));
    while let Some(event) = bench.echo.next_event() {
        match event {
            Event::Started(..) => running += 1,
            Event::Stopped(..) => running -= 1,
            Event::Disconnected(_) => assert_eq!(running, 0),
            Event::Connected | Event::Rewired(..) => {}
        }
    }
}

fn options(socket: &Path, queue_pairs: u16) -> FrontendOptions {
    FrontendOptions {
        socket: socket.to_owned(),
        mode: Mode::Client,
        queue_pairs,
        queue_sizes: 64.into(),
        features: SPLIT,
        exchange: None,
    }
}

#[test]
fn waiting_for_a_device_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let mut attempt = |mode, stop| {
        let options = FrontendOptions { mode, ..options(&dir.path().join("nobody"), 1) };
        // Without a timeout, only the stop flag ends it.
        let timeout = if stop { None } else { Some(Duration::from_millis(300)) };
        Link::establish(&options, &mut arena, timeout, &AtomicBool::new(stop)).err().unwrap()
    };
    for mode in [Mode::Client, Mode::Server] {
        let error = attempt(mode, false);
        assert!(matches!(error, FrontendError::Timeout), "{error}");
        let error = attempt(mode, true);
        assert!(matches!(error, FrontendError::Stopped), "{error}");
    }
}

#[test]
fn a_device_that_never_answers_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("mute");
    let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let timeout = Some(Duration::from_millis(200));
    let error = Link::establish(&options(&socket, 1), &mut arena, timeout, &AtomicBool::new(false)).err().unwrap();
    assert!(matches!(error, FrontendError::Timeout), "{error}");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, std::sync::atomic::Ordering::Release);
        });
        let error = Link::establish(&options(&socket, 1), &mut arena, None, &stop).err().unwrap();
        assert!(matches!(error, FrontendError::Stopped), "{error}");
    });
}

#[test]
fn a_service_stops_immediately_in_every_state() {
    // It waits for a connection (server), for a peer (client), for the first message.
    Bench::new(Mode::Server, 1).stop();
    Bench::new(Mode::Client, 1).stop();
    let mut bench = Bench::new(Mode::Server, 1);
    let raw = bench.raw();
    bench.echo.wait("a connection", |event| (event == Event::Connected).then_some(()));
    bench.stop();
    assert!(raw.is_closed());
}

#[test]
fn a_socket_in_use_is_an_error_and_stays() {
    let bench = Bench::new(Mode::Server, 1);
    let options = Options::new(&bench.socket, Mode::Server, 1);
    let error = Service::spawn(options, support::Echo::new(1)).err().unwrap();
    assert!(error.to_string().contains("is taken"), "{error}");
    // The check made a connection, which need not have become a session.
    bench.still_works();
}
