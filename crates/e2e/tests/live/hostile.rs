//! Guests that break the rules of their rings and sockets, on a live Millrace, next to two that do not.
//!
//! Each test puts a rogue on port `a`. Afterwards a good guest must be served there, no frame between `c` and `d` may be
//! lost, and Millrace must have logged the error.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use e2e::live::Live;
use e2e::virtio::rogue::{BUFFERS, F_NEXT, F_WRITE, HEADER, LENGTH, RX, Rogue, SIZE, START, TX};
use e2e::virtio::{Exchange, Guest, Options};
use e2e::wait_for;
use lab::millrace::config::*;
use rustix::fs::ftruncate;
use vhost::VhostBackend;

/// Millrace with two patches, and good guests on all ports but `a`.
struct Scene {
    live: Live,
    b: Guest,
    /// Length of the log at the start.
    mark: usize,
}

impl Scene {
    fn new() -> Scene {
        let live = Live::new(patched("a", "b"));
        let b = Options::new(live.home.socket("b")).connect().unwrap();
        live.millrace.wait_up(&["b"]);
        let mark = live.millrace.daemon.log().mark();
        Scene { live, b, mark }
    }

    fn rogue(&self) -> Rogue {
        let rogue = Rogue::connect(&self.live.home);
        self.live.millrace.wait_up(&["a"]);
        rogue
    }

    /// Waits until the log contains `part`.
    fn said(&mut self, part: &str) {
        self.live.millrace.wait_said(self.mark, part);
    }

    /// Waits until port `a` has dropped `frames` frames for this reason.
    fn dropped(&self, reason: &str, frames: u64) {
        let count = || self.live.millrace.port("a").drops().get(reason).copied();
        wait_for(&format!("{frames} frames dropped at a for {reason}: {:?}", self.live.millrace.drops()), || {
            (count() == Some(frames)).then_some(())
        });
    }

    /// Checks, after the rogue has gone, that all others are served.
    fn recovers(mut self) {
        let Live { home, millrace, .. } = &self.live;
        millrace.wait_gone("a");
        while self.b.receive(64, |_| Ok(())).unwrap() > 0 {}
        self.b.reap().unwrap();
        for options in [Options::new(home.socket("a")), Options::new(home.socket("a")).packed()] {
            let a = options.connect().unwrap();
            millrace.wait_up(&["a"]);
            let mut exchange = Exchange::new([a, self.b], [1, 2], 60..=9000, 32);
            exchange.run(500, e2e::SOON).unwrap();
            let [a, b] = exchange.into_guests();
            self.b = b;
            drop(a);
            millrace.wait_down("a");
        }
        self.live.finish();
    }
}

#[test]
fn memory_vanishes_under_load() {
    // Without its buffers, and also without its rings.
    for left in [BUFFERS - START, 0] {
        let mut scene = Scene::new();
        let mut rogue = scene.rogue();
        rogue.blast(&mut scene.b, Duration::from_millis(100));
        ftruncate(&*rogue.file, left).unwrap();
        if left > 0 {
            rogue.blast(&mut scene.b, Duration::from_millis(20));
        }
        scene.said("its file shrank, or got a hole");
        drop(rogue);
        scene.recovers();
    }
}

#[test]
fn the_available_index_jumps() {
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    rogue.publish(TX, 0x5555);
    scene.said("the available index moved by 21845");
    scene.recovers();
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    rogue.blast(&mut scene.b, Duration::from_millis(20));
    rogue.publish(TX, rogue.next[TX].wrapping_add(SIZE + 1));
    scene.said("the available index moved by");
    drop(rogue);
    scene.recovers();
}

#[test]
fn descriptors_form_a_loop() {
    for (queue, flags) in [(TX, F_NEXT), (RX, F_NEXT | F_WRITE)] {
        let mut scene = Scene::new();
        let mut rogue = scene.rogue();
        for slot in 0..3 {
            rogue.describe(queue, slot, BUFFERS, 100, flags, (slot + 1) % 3);
        }
        rogue.offer(queue, 0);
        rogue.publish(queue, 1);
        if queue == RX {
            // The ring is read only when a frame is delivered.
            scene.b.send(&[&[0xff; 64]], 1).unwrap();
            scene.b.flush();
        }
        scene.said("longer than 256 descriptors, or a loop");
        drop(rogue);
        scene.recovers();
    }
}

#[test]
fn descriptors_point_beyond_the_table() {
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    rogue.offer(TX, SIZE);
    rogue.publish(TX, 1);
    scene.said("names descriptor 256");
    drop(rogue);
    scene.recovers();
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    rogue.describe(TX, 0, BUFFERS, 100, F_NEXT, u16::MAX);
    rogue.offer(TX, 0);
    rogue.publish(TX, 1);
    scene.said("names descriptor 65535");
    drop(rogue);
    scene.recovers();
}

#[test]
fn buffers_that_are_not_the_guests_are_dropped_one_by_one() {
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    // Outside, across the end, in a gap after a good buffer, and everywhere. One that may be written to is read as well.
    rogue.describe(TX, 0, 0x1000, 100, 0, 0);
    rogue.describe(TX, 1, START + LENGTH - 50, 100, 0, 0);
    rogue.describe(TX, 2, BUFFERS, 100, F_NEXT, 3);
    rogue.describe(TX, 3, u64::MAX - 50, 100, 0, 0);
    rogue.describe(TX, 4, BUFFERS, u32::MAX, 0, 0);
    rogue.describe(TX, 5, BUFFERS, 100, F_WRITE, 0);
    rogue.offer_all(TX, &[0, 1, 2, 4, 5]);
    scene.dropped("bad-buffer", 4);
    wait_for("the writable frame", || (scene.b.receive(1, |_| Ok(())).unwrap() == 1).then_some(()));
    // The queue continues.
    rogue.describe(TX, 6, BUFFERS, HEADER + 60, 0, 0);
    rogue.offer_all(TX, &[6]);
    wait_for("the good frame", || (scene.b.receive(1, |_| Ok(())).unwrap() == 1).then_some(()));
    // Receive buffers are checked only when there is a frame to receive.
    rogue.describe(RX, 0, 0x1000, 2048, F_WRITE, 0);
    rogue.describe(RX, 1, BUFFERS, 2048, 0, 0);
    rogue.offer(RX, 0);
    rogue.offer(RX, 1);
    rogue.publish(RX, 2);
    scene.b.send(&[&[0xff; 64]], 1).unwrap();
    scene.b.flush();
    wait_for("the buffers to come back", || (rogue.used_index(RX) == 2).then_some(()));
    scene.dropped("bad-buffer", 6);
    scene.dropped("no-buffers", 1);
    drop(rogue);
    scene.recovers();
}

#[test]
fn buffers_too_short_for_a_frame_are_dropped_one_by_one() {
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    for (slot, len) in [0, 1, HEADER - 1, HEADER, HEADER + 13].into_iter().enumerate() {
        rogue.describe(TX, slot as u16, BUFFERS, len, 0, 0);
    }
    rogue.offer_all(TX, &[0, 1, 2, 3, 4]);
    let short = || scene.live.millrace.port("a").dropped();
    wait_for("five runts to be dropped", || (short() == 5).then_some(()));
    let reasons = scene.live.millrace.port("a").0.drops;
    assert!(reasons.contains_key("runt"), "{reasons:?}");
    rogue.describe(RX, 0, BUFFERS, HEADER - 1, F_WRITE, 0);
    rogue.offer(RX, 0);
    rogue.publish(RX, 1);
    scene.b.send(&[&[0xff; 64]], 1).unwrap();
    scene.b.flush();
    wait_for("the buffer to come back", || (rogue.used_index(RX) == 1).then_some(()));
    scene.dropped("runt", reasons["runt"] + 1);
    drop(rogue);
    scene.recovers();
}

#[test]
fn a_guest_leaves_in_the_middle_of_a_burst() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        let mut rogue = scene.rogue();
        rogue.blast(&mut scene.b, Duration::from_millis(5));
        drop(rogue);
        scene.live.millrace.wait_down("a");
    }
    scene.said("the frontend closed the connection");
    scene.recovers();
}

#[test]
fn half_a_message_blocks_others_only_briefly() {
    let mut scene = Scene::new();
    let mut stalled = UnixStream::connect(scene.live.home.socket("a")).unwrap();
    stalled.write_all(&[1, 0, 0, 0, 1, 0]).unwrap();
    scene.live.check_honest();
    scene.said("sent half a message and then nothing");
    // Still open on this side.
    scene.recovers();
    drop(stalled);
}

#[test]
fn five_hundred_connections_come_and_go() {
    let mut scene = Scene::new();
    let before = scene.live.millrace.usage_at_rest();
    let began = Instant::now();
    for number in 0..500 {
        let mut stream = UnixStream::connect(scene.live.home.socket("a")).unwrap();
        if number % 2 == 0 {
            // A complete SET_OWNER.
            let _ = stream.write_all(&[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    println!("500 connections in {:?}", began.elapsed());
    scene.said("the vhost-user session ended");
    wait_for("the descriptors to be closed", || (scene.live.millrace.usage().fds <= before.fds).then_some(()));
    scene.recovers();
}

#[test]
fn the_protocol_is_checked_on_a_live_switch() {
    let mut scene = Scene::new();
    let rogue = scene.rogue();
    // A size that no queue may have, while the queues run.
    assert!(rogue.frontend.set_vring_num(1, 3).is_err() || rogue.frontend.get_features().is_err());
    scene.said("SET_VRING_NUM");
    drop(rogue);
    scene.recovers();
}
