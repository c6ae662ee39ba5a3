//! Ports against a vhost-user device in this process.

use crate::echo::{Echo, rest};
use nf::{Options, Packet, PortOptions, Ports};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vhost_user::Mode;
use virtqueue::Format;

const DEADLINE: Duration = Duration::from_secs(120);
static GO: AtomicBool = AtomicBool::new(false);

struct Rig {
    ports: Ports,
    echo: Option<Echo>,
    directory: TempDir,
}

impl Rig {
    fn new(change: impl FnOnce(&mut Options)) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("port");
        let mut options = Options::new(vec![PortOptions::new(&socket)]);
        options.timeout = Some(DEADLINE);
        change(&mut options);
        let port = &options.ports[0];
        let mode = if port.mode == Mode::Client { Mode::Server } else { Mode::Client };
        let echo = Some(Echo::new(&socket, mode, port.queue_pairs));
        let ports = Ports::open(options, &GO).unwrap();
        Rig { ports, echo, directory }
    }

    fn send(&mut self, queue: u16, bytes: &[u8]) {
        let mut packet = self.ports[0].alloc(bytes.len()).unwrap();
        packet.copy_from_slice(bytes);
        packet.set_queue(queue);
        self.ports[0].transmit(packet).unwrap();
        self.ports[0].flush();
    }

    fn receive(&mut self, count: usize) -> Vec<Packet> {
        let start = Instant::now();
        let mut burst = Vec::new();
        while burst.len() < count {
            self.ports[0].receive(&mut burst);
            assert!(start.elapsed() < DEADLINE, "{} of {count} frames came", burst.len());
            rest();
        }
        burst
    }
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.chunks().flatten().copied().collect()
}

fn frame(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + number) as u8).collect()
}

#[test]
fn frames_come_back_as_they_went() {
    for packed in [false, true] {
        for (mergeable, in_order) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut rig = Rig::new(|o| {
                (o.ports[0].packed, o.ports[0].mergeable, o.ports[0].in_order) = (packed, mergeable, in_order);
            });
            assert_eq!(rig.ports[0].negotiated().format(), if packed { Format::Packed } else { Format::Split });
            for number in 0..1000 {
                let sent = frame(number, 60 + number % 1400);
                rig.send(0, &sent);
                let received = rig.receive(1);
                assert_eq!(bytes(&received[0]), sent);
                assert_eq!(received[0].chunks().count(), 1);
            }
            let counters = rig.ports[0].counters();
            assert_eq!((counters.received, counters.transmitted, counters.malformed), (1000, 1000, 0));
        }
    }
}

#[test]
fn received_buffers_are_sent_on_and_come_back() {
    let mut rig = Rig::new(|_| {});
    rig.send(0, &frame(1, 100));
    for _ in 0..500 {
        let packet = rig.receive(1).remove(0);
        assert_eq!(bytes(&packet), frame(1, 100));
        rig.ports[0].transmit(packet).unwrap();
        rig.ports[0].flush();
    }
    // All buffers are accounted for: the free ones, the posted ones, and the one of the received packet.
    let packet = rig.receive(1);
    rig.ports[0].reclaim();
    assert_eq!(rig.ports[0].free_buffers(), 256 + 256 - 1);
    drop(packet);
    assert_eq!(rig.ports[0].free_buffers(), 256 + 256);
}

#[test]
fn a_frame_over_many_buffers_is_forwarded_as_a_chain() {
    for packed in [false, true] {
        let mut rig = Rig::new(|o| (o.buffer_size, o.ports[0].packed) = (128, packed));
        let sent = frame(5, 1500);
        assert!(rig.echo.as_ref().unwrap().inject(&sent));
        for _ in 0..300 {
            let mut packet = rig.receive(1).remove(0);
            assert!(packet.chunks().count() > 5);
            assert_eq!(packet.total_len(), 1500);
            assert_eq!(bytes(&packet), sent);
            packet.chunks_mut().for_each(|chunk| chunk.reverse());
            packet.chunks_mut().for_each(|chunk| chunk.reverse());
            rig.ports[0].transmit(packet).unwrap();
            rig.ports[0].flush();
        }
        drop(rig.receive(1));
        rig.ports[0].reclaim();
        assert_eq!(rig.ports[0].free_buffers(), 256 + 256);
    }
}

#[test]
fn all_queue_pairs_are_used() {
    let mut rig = Rig::new(|o| o.ports[0].queue_pairs = 4);
    for queue in 0..4 {
        rig.send(queue, &frame(queue.into(), 64));
    }
    let mut received: Vec<_> = rig.receive(4).iter().map(|p| (p.queue(), bytes(p))).collect();
    received.sort();
    let expected: Vec<_> = (0..4).map(|queue| (queue, frame(queue.into(), 64))).collect();
    assert_eq!(received, expected);
}

#[test]
fn a_full_queue_gives_packets_back() {
    let mut rig = Rig::new(|o| o.ports[0].queue_size = 16);
    let echo = rig.echo.as_ref().unwrap();
    echo.pause(true);
    for number in 0..16 {
        rig.send(0, &frame(number, 60));
    }
    let mut one_more = rig.ports[0].alloc(60).unwrap();
    one_more.copy_from_slice(&frame(16, 60));
    let one_more = rig.ports[0].transmit(one_more).unwrap_err();
    assert_eq!(bytes(&one_more), frame(16, 60));
    rig.echo.as_ref().unwrap().pause(false);
    assert_eq!(rig.receive(16).len(), 16);
    rig.ports[0].transmit(one_more).unwrap();
    rig.ports[0].flush();
    assert_eq!(bytes(&rig.receive(1)[0]), frame(16, 60));
}

#[test]
fn a_frame_ends_sleep() {
    for event_idx in [false, true] {
        let mut rig = Rig::new(|o| o.ports[0].event_idx = event_idx);
        let mut burst = Vec::new();
        for number in 0..200 {
            rig.send(0, &frame(number, 60));
            let start = Instant::now();
            while rig.ports[0].receive(&mut burst) == 0 {
                rig.ports.wait(DEADLINE).unwrap();
                assert!(start.elapsed() < DEADLINE / 2, "the notification was lost");
            }
            burst.clear();
        }
        // Without frames, it sleeps for the whole timeout.
        let start = Instant::now();
        rig.ports.wait(Duration::from_millis(30)).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(29));
    }
}

#[test]
fn a_lost_link_is_established_again() {
    for mode in [Mode::Client, Mode::Server] {
        let mut rig = Rig::new(|o| o.ports[0].mode = mode);
        rig.send(0, &frame(1, 60));
        let kept = rig.receive(1).remove(0);
        rig.echo = None;
        let socket = rig.directory.path().join("port");
        let other = if mode == Mode::Client { Mode::Server } else { Mode::Client };
        rig.echo = Some(Echo::new(&socket, other, 1));
        let start = Instant::now();
        while !rig.ports.check(&GO).unwrap() {
            assert!(start.elapsed() < DEADLINE, "the loss was not seen");
            std::thread::sleep(Duration::from_millis(10));
        }
        // A packet from before the reconnect is in other memory, and still valid.
        assert_eq!(bytes(&kept), frame(1, 60));
        rig.ports[0].transmit(kept).unwrap();
        rig.ports[0].flush();
        assert_eq!(bytes(&rig.receive(1)[0]), frame(1, 60));
        assert_eq!(rig.ports[0].counters().received, 2, "counters go on");
    }
}

#[test]
fn without_reconnect_a_lost_link_is_an_error() {
    let mut rig = Rig::new(|o| o.reconnect = false);
    rig.echo = None;
    std::thread::sleep(Duration::from_millis(120));
    let error = rig.ports.check(&GO).unwrap_err();
    assert!(error.to_string().contains("closed the connection"), "{error}");
}

#[test]
fn too_many_buffers_are_refused() {
    let mut options = Options::new(vec![PortOptions::new("/nowhere")]);
    (options.ports[0].queue_pairs, options.ports[0].queue_size) = (64, 1024);
    let error = Ports::open(options, &GO).err().unwrap();
    assert!(error.to_string().starts_with("131328 buffers are needed"), "{error}");
}
