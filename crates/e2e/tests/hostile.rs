//! Guests that break the rules of their rings and sockets, on a live Millrace, next to two that do not.
//!
//! Each test puts a rogue on port `a`. Afterwards a good guest has to be served there, the traffic between `c` and `d`
//! must not have lost a frame, and Millrace must have said what was wrong.

mod support;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::cpu;
use e2e::virtio::{Exchange, Guest, Options, Pump};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use support::{Home, Millrace, wait_for};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtqueue::features;
use virtqueue::memory::{Memory, Region};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const F_NEXT: u16 = 1;
const F_WRITE: u16 = 2;

/// Queue numbers, as vhost-user has them.
const RX: usize = 0;
const TX: usize = 1;

const SIZE: u16 = 256;
const HEADER: u32 = 12;

/// The guest's memory: two rings in the first pages, then buffers.
const START: u64 = 0x10_0000;
const LENGTH: u64 = 0x20_0000;
const BUFFERS: u64 = START + 0x1_0000;

/// The areas of a queue.
fn descriptors(queue: usize) -> u64 {
    START + queue as u64 * 0x4000
}

fn available(queue: usize) -> u64 {
    descriptors(queue) + 0x1000
}

fn used(queue: usize) -> u64 {
    descriptors(queue) + 0x2000
}

/// A guest with split rings that it writes by hand, in memory that it may shrink.
struct Rogue {
    frontend: Frontend,
    memory: Memory,
    file: Arc<OwnedFd>,
    /// Next available index of each queue.
    next: [u16; 2],
    /// The transmit buffers hold good frames.
    filled: bool,
    _events: Vec<EventFd>,
}

impl Rogue {
    fn connect(home: &Home) -> Rogue {
        let stream = UnixStream::connect(home.socket("a")).unwrap();
        let mut frontend = Frontend::from_stream(stream, 2);
        let file = Arc::new(memfd_create("rogue", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&*file, LENGTH).unwrap();
        let region = Region { guest_addr: START, user_addr: START, len: LENGTH, offset: 0, file: file.clone() };
        let memory = Memory::map(vec![region]).unwrap();
        frontend.set_owner().unwrap();
        let wanted = features::VERSION_1 | features::MRG_RXBUF | features::PROTOCOL_FEATURES;
        assert_eq!(frontend.get_features().unwrap() & wanted, wanted);
        frontend.set_features(wanted).unwrap();
        frontend.get_protocol_features().unwrap();
        let table = VhostUserMemoryRegionInfo {
            guest_phys_addr: START,
            memory_size: LENGTH,
            userspace_addr: START,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        frontend.set_mem_table(&[table]).unwrap();
        let mut events = Vec::new();
        for queue in [RX, TX] {
            let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
            let rings = VringConfigData {
                queue_max_size: SIZE,
                queue_size: SIZE,
                flags: 0,
                desc_table_addr: descriptors(queue),
                used_ring_addr: used(queue),
                avail_ring_addr: available(queue),
                log_addr: None,
            };
            frontend.set_vring_call(queue, &call).unwrap();
            frontend.set_vring_num(queue, SIZE).unwrap();
            frontend.set_vring_base(queue, 0).unwrap();
            frontend.set_vring_addr(queue, &rings).unwrap();
            frontend.set_vring_kick(queue, &kick).unwrap();
            frontend.set_vring_enable(queue, true).unwrap();
            events.extend([kick, call]);
        }
        Rogue { frontend, memory, file, next: [0; 2], filled: false, _events: events }
    }

    fn write(&self, addr: u64, bytes: &[u8]) {
        let to = self.memory.translate(addr, bytes.len() as u64).expect("an address of the guest");
        // SAFETY: as many bytes are mapped there; Millrace may read them meanwhile, and gets what it gets.
        unsafe { to.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn write_u16(&self, addr: u64, value: u16) {
        let to = self.memory.translate(addr, 2).expect("an address of the guest").as_ptr().cast::<u16>();
        // SAFETY: mapped, and all addresses here are even. Volatile, so that it is written now and at once.
        unsafe { to.write_volatile(value) };
    }

    /// The index up to which Millrace gave chains back.
    fn used_index(&self, queue: usize) -> u16 {
        let from = self.memory.translate(used(queue) + 2, 2).expect("an address of the guest").as_ptr().cast::<u16>();
        // SAFETY: as above.
        unsafe { from.read_volatile() }
    }

    fn describe(&self, queue: usize, slot: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let at = descriptors(queue) + u64::from(slot) * 16;
        self.write(at, &addr.to_le_bytes());
        self.write(at + 8, &len.to_le_bytes());
        self.write(at + 12, &[flags.to_le_bytes(), next.to_le_bytes()].concat());
    }

    /// Makes the chain that starts with `head` available.
    fn offer(&mut self, queue: usize, head: u16) {
        let next = self.next[queue];
        self.write_u16(available(queue) + 4 + u64::from(next % SIZE) * 2, head);
        self.next[queue] = next.wrapping_add(1);
    }

    /// Tells of what was made available, or of anything else.
    fn publish(&mut self, queue: usize, index: u16) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.next[queue] = index;
        self.write_u16(available(queue) + 2, index);
    }

    /// Offers chains and waits until they are given back.
    fn offer_all(&mut self, queue: usize, heads: &[u16]) {
        heads.iter().for_each(|&head| self.offer(queue, head));
        let goal = self.next[queue];
        self.publish(queue, goal);
        wait_for("the chains to come back", || (self.used_index(queue) == goal).then_some(()));
    }

    /// Keeps the transmit queue full of good frames for a while; `b` takes them. After the first time, this touches
    /// no buffer.
    fn blast(&mut self, b: &mut Guest, time: Duration) {
        if !std::mem::replace(&mut self.filled, true) {
            for slot in 0..SIZE {
                let addr = BUFFERS + u64::from(slot) * 2048;
                self.write(addr, &[0; 2048]);
                self.describe(TX, slot, addr, HEADER + 1500, 0, 0);
            }
        }
        let began = Instant::now();
        while began.elapsed() < time {
            while self.next[TX].wrapping_sub(self.used_index(TX)) < SIZE {
                self.offer(TX, self.next[TX] % SIZE);
            }
            self.publish(TX, self.next[TX]);
            b.receive(64, |_| Ok(())).unwrap();
        }
    }
}

/// Millrace with two patches, and good guests on all ports but `a`.
struct Scene {
    home: Home,
    millrace: Millrace,
    b: Guest,
    pump: Pump,
    /// Length of the log when the scene was set.
    mark: usize,
}

impl Scene {
    fn new() -> Scene {
        let home = Home::new();
        let config = [support::patch("a", "b"), support::patch("c", "d"), support::poller()].concat();
        let millrace = home.start(&config);
        let [b, c, d] = ["b", "c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
        millrace.wait_up(&["b", "c", "d"]);
        let pump = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
        pump.wait_for(100, support::SOON).unwrap();
        let mark = millrace.daemon.log().mark();
        Scene { home, millrace, b, pump, mark }
    }

    fn rogue(&self) -> Rogue {
        let rogue = Rogue::connect(&self.home);
        self.millrace.wait_up(&["a"]);
        rogue
    }

    /// Waits until the log says so.
    fn said(&mut self, part: &str) {
        self.millrace.wait_said(self.mark, part);
    }

    /// Waits until port `a` has dropped so many frames for this reason.
    fn dropped(&self, reason: &str, frames: u64) {
        let count = || self.millrace.drops().get("a").and_then(|port| port.get(reason)).copied();
        wait_for(&format!("{frames} frames dropped at a for {reason}: {:?}", self.millrace.drops()), || {
            (count() == Some(frames)).then_some(())
        });
    }

    /// The rogue has gone: everybody else has to be well.
    fn recovers(mut self) {
        self.millrace.wait_down("a");
        while self.b.receive(64, |_| Ok(())).unwrap() > 0 {}
        self.b.reap().unwrap();
        for options in [Options::new(self.home.socket("a")), Options::new(self.home.socket("a")).packed()] {
            let a = options.connect().unwrap();
            self.millrace.wait_up(&["a"]);
            let mut exchange = Exchange::new([a, self.b], [1, 2], 60..=9000, 32);
            exchange.run(500, support::SOON).unwrap();
            let [a, b] = exchange.into_guests();
            self.b = b;
            drop(a);
            self.millrace.wait_down("a");
        }
        self.pump.wait_for(100, support::SOON).unwrap();
        let tally = self.pump.stop().unwrap();
        assert!(tally.is_complete(), "the good guests lost frames: {tally:?}");
        for (port, sent) in [("c", 0), ("d", 1)] {
            let port = self.millrace.port(port);
            assert_eq!((port.rx(), port.tx()), (tally.sent[sent], tally.received[1 - sent]), "{:?}", port.0);
            assert!(port.drops().is_empty(), "{:?}", port.0);
        }
        self.millrace.stop();
    }
}

#[test]
fn memory_vanishes_under_load() {
    let _alone = cpu::alone();
    // Without its buffers, and without its rings too.
    for left in [BUFFERS - START, 0] {
        let mut scene = Scene::new();
        let mut rogue = scene.rogue();
        rogue.blast(&mut scene.b, Duration::from_millis(100));
        ftruncate(&*rogue.file, left).unwrap();
        if left > 0 {
            rogue.blast(&mut scene.b, Duration::from_millis(20));
        }
        scene.said("memory file shrank");
        drop(rogue);
        scene.recovers();
    }
}

#[test]
fn the_available_index_jumps() {
    let _alone = cpu::alone();
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
    let _alone = cpu::alone();
    for (queue, flags) in [(TX, F_NEXT), (RX, F_NEXT | F_WRITE)] {
        let mut scene = Scene::new();
        let mut rogue = scene.rogue();
        for slot in 0..3 {
            rogue.describe(queue, slot, BUFFERS, 100, flags, (slot + 1) % 3);
        }
        rogue.offer(queue, 0);
        rogue.publish(queue, 1);
        if queue == RX {
            // Only who delivers a frame looks at it.
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
    let _alone = cpu::alone();
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
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    // Outside, across the end, in a gap after a good buffer, everywhere, and writable.
    rogue.describe(TX, 0, 0x1000, 100, 0, 0);
    rogue.describe(TX, 1, START + LENGTH - 50, 100, 0, 0);
    rogue.describe(TX, 2, BUFFERS, 100, F_NEXT, 3);
    rogue.describe(TX, 3, u64::MAX - 50, 100, 0, 0);
    rogue.describe(TX, 4, BUFFERS, u32::MAX, 0, 0);
    rogue.describe(TX, 5, BUFFERS, 100, F_WRITE, 0);
    rogue.offer_all(TX, &[0, 1, 2, 4, 5]);
    scene.dropped("bad-buffer", 5);
    // The queue goes on.
    rogue.describe(TX, 6, BUFFERS, HEADER + 60, 0, 0);
    rogue.offer_all(TX, &[6]);
    wait_for("the good frame", || (scene.b.receive(1, |_| Ok(())).unwrap() == 1).then_some(()));
    // Buffers to receive into are looked at when there is something to receive.
    rogue.describe(RX, 0, 0x1000, 2048, F_WRITE, 0);
    rogue.describe(RX, 1, BUFFERS, 2048, 0, 0);
    rogue.offer(RX, 0);
    rogue.offer(RX, 1);
    rogue.publish(RX, 2);
    scene.b.send(&[&[0xff; 64]], 1).unwrap();
    scene.b.flush();
    wait_for("the buffers to come back", || (rogue.used_index(RX) == 2).then_some(()));
    scene.dropped("bad-buffer", 7);
    scene.dropped("no-buffers", 1);
    drop(rogue);
    scene.recovers();
}

#[test]
fn buffers_too_short_for_a_frame_are_dropped_one_by_one() {
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    let mut rogue = scene.rogue();
    for (slot, len) in [0, 1, HEADER - 1, HEADER, HEADER + 13].into_iter().enumerate() {
        rogue.describe(TX, slot as u16, BUFFERS, len, 0, 0);
    }
    rogue.offer_all(TX, &[0, 1, 2, 3, 4]);
    let short = || scene.millrace.port("a").dropped();
    wait_for("five runts to be dropped", || (short() == 5).then_some(()));
    let reasons = scene.millrace.drops()["a"].clone();
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
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    for _ in 0..20 {
        let mut rogue = scene.rogue();
        rogue.blast(&mut scene.b, Duration::from_millis(5));
        drop(rogue);
        scene.millrace.wait_down("a");
    }
    scene.said("the frontend closed the connection");
    scene.recovers();
}

#[test]
fn half_a_message_holds_nobody_up_for_long() {
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    let mut stalled = UnixStream::connect(scene.home.socket("a")).unwrap();
    stalled.write_all(&[1, 0, 0, 0, 1, 0]).unwrap();
    scene.pump.wait_for(1000, support::SOON).unwrap();
    scene.said("sent half a message and then nothing");
    // Still open on this side.
    scene.recovers();
    drop(stalled);
}

#[test]
fn five_hundred_connections_come_and_go() {
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    let before = scene.millrace.usage_at_rest();
    let began = Instant::now();
    for number in 0..500 {
        let mut stream = UnixStream::connect(scene.home.socket("a")).unwrap();
        if number % 2 == 0 {
            // SET_OWNER, whole.
            let _ = stream.write_all(&[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    println!("500 connections in {:?}", began.elapsed());
    scene.said("the vhost-user session ended");
    wait_for("the descriptors to be closed", || (scene.millrace.usage().fds <= before.fds).then_some(()));
    scene.recovers();
}

#[test]
fn the_protocol_is_checked_on_a_live_switch() {
    let _alone = cpu::alone();
    let mut scene = Scene::new();
    let rogue = scene.rogue();
    // A size that no queue has, while the queues run.
    assert!(rogue.frontend.set_vring_num(1, 3).is_err() || rogue.frontend.get_features().is_err());
    scene.said("SET_VRING_NUM");
    drop(rogue);
    scene.recovers();
}
