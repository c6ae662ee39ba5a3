//! Against DPDK's own vhost-user, in both roles: its vhost port as the device, its virtio_user port as the guest.
#![allow(missing_docs)]

mod support;

use lab::dpdk::{AnyPort, Builder, Port, READY, Testpmd, VhostPort};
use std::sync::atomic::Ordering;
use support::{Bench, Event, Guest, PACKED, PACKED_IN_ORDER, SPLIT, wait_for};
use vhost_user::Mode;
use virtqueue::Format;

/// Returns a testpmd with one port, which forwards every frame back to itself.
fn testpmd(port: impl Into<AnyPort>, pairs: u16) -> Builder {
    Testpmd::switch().port(port).queues(pairs).argument("--disable-link-check")
}

/// Connects our guest several times to a testpmd that sends every frame back.
fn guest_at_testpmd(mode: Mode, pairs: u16, features: u64) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("vhost.sock");
    let port = VhostPort::new(&socket);
    let port = if mode == Mode::Client { port.client() } else { port };
    let mut testpmd = testpmd(port, pairs).spawn_ready().unwrap();
    // testpmd 22.11 sometimes never polls a guest that connects before it forwards.
    testpmd.start().unwrap();
    for _ in 0..3 {
        let mut guest = Guest::link(&socket, mode, pairs, features);
        guest.exchange(2000);
        assert!(guest.link.as_ref().unwrap().is_connected());
    }
    testpmd.quit(READY).unwrap();
}

#[test]
fn split_guest_at_testpmd() {
    guest_at_testpmd(Mode::Server, 1, SPLIT);
}

#[test]
fn split_guest_at_testpmd_that_connects() {
    guest_at_testpmd(Mode::Client, 2, SPLIT);
}

#[test]
fn packed_guest_at_testpmd() {
    guest_at_testpmd(Mode::Server, 2, PACKED);
}

#[test]
fn packed_in_order_guest_at_testpmd_that_connects() {
    guest_at_testpmd(Mode::Client, 1, PACKED_IN_ORDER);
}

/// Runs testpmd as the guest of our device, which sends every frame back.
fn testpmd_as_guest(mode: Mode, pairs: u16, format: Format) {
    let bench = Bench::new(mode, pairs);
    for _ in 0..2 {
        let mut port = Port::new(&bench.socket);
        if format == Format::Packed {
            port = port.packed();
        }
        if mode == Mode::Client {
            port = port.server();
        }
        let mut testpmd = testpmd(port, pairs).spawn_ready().unwrap();
        testpmd.start_tx_first(4).unwrap();
        let config = bench.echo.wait_started(2 * usize::from(pairs) - 1);
        assert_eq!((config.negotiated.format(), config.size), (format, 256));
        // The same few frames circulate, so each passes many times.
        let before = bench.echo.frames.load(Ordering::Relaxed);
        wait_for("frames to go round", || (bench.echo.frames.load(Ordering::Relaxed) > before + 5_000).then_some(()));
        testpmd.quit(READY).unwrap();
        assert_eq!(bench.echo.wait_disconnected(), "the frontend closed the connection");
        while let Some(event) = bench.echo.next_event() {
            assert!(!matches!(event, Event::Started(..)), "{event:?} after testpmd's end");
        }
    }
    bench.still_works();
}

#[test]
fn testpmd_as_split_guest() {
    testpmd_as_guest(Mode::Server, 1, Format::Split);
}

#[test]
fn testpmd_as_packed_guest() {
    testpmd_as_guest(Mode::Server, 2, Format::Packed);
}

#[test]
fn testpmd_as_split_guest_that_listens() {
    testpmd_as_guest(Mode::Client, 2, Format::Split);
}

#[test]
fn testpmd_as_packed_guest_that_listens() {
    testpmd_as_guest(Mode::Client, 1, Format::Packed);
}
