//! Against DPDK's own vhost-user, in both roles: its vhost port as the device, its virtio_user port as the guest.
#![allow(missing_docs)]

mod support;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Bench, Event, Guest, PACKED, PACKED_IN_ORDER, SPLIT, Testpmd, wait_for};
use vhost_user::Mode;
use virtqueue::Format;

/// Runs these tests one at a time: each needs all cores.
fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects our guest several times to a testpmd that sends every frame back.
fn guest_at_testpmd(mode: Mode, pairs: u16, features: u64) {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("vhost.sock");
    let client = u8::from(mode == Mode::Client);
    let device = format!("net_vhost0,iface={},queues={pairs},client={client}", socket.display());
    let mut testpmd = Testpmd::spawn(&device, pairs, false);
    testpmd.wait_forwarding();
    for _ in 0..3 {
        let mut guest = Guest::link(&socket, mode, pairs, features);
        guest.exchange(2000);
        assert!(guest.link.as_ref().unwrap().is_connected());
    }
    testpmd.quit();
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
    let _alone = alone();
    let bench = Bench::new(mode, pairs);
    for _ in 0..2 {
        let flag = u8::from;
        let device = format!(
            "net_virtio_user0,path={},queues={pairs},queue_size=256,packed_vq={},server={}",
            bench.socket.display(),
            flag(format == Format::Packed),
            flag(mode == Mode::Client),
        );
        let mut testpmd = Testpmd::spawn(&device, pairs, true);
        let config = bench.echo.wait_started(2 * usize::from(pairs) - 1);
        assert_eq!((config.negotiated.format(), config.size), (format, 256));
        // The same few frames circulate, so each passes many times.
        let before = bench.echo.frames.load(Ordering::Relaxed);
        wait_for("frames to go round", || (bench.echo.frames.load(Ordering::Relaxed) > before + 20_000).then_some(()));
        testpmd.quit();
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
