//! Frames of random sizes through a patch and a bridge, with every byte of every frame checked.
//!
//! The default is 100,000 frames through each; the environment variable MILLRACE_SOAK_FRAMES sets another number.

use std::time::{Duration, Instant};

use e2e::virtio::{Exchange, Options, Sizes};
use e2e::{Home, Millrace, wait_for};
use lab::cpu;
use lab::millrace::config::*;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// All Ethernet sizes up to jumbo frames.
const SIZES: Sizes = 60..=9000;

/// Such frames take up to five buffers of 2 KiB each, of which there are 256.
const WINDOW: u64 = 48;

fn frames() -> u64 {
    let wanted = std::env::var("MILLRACE_SOAK_FRAMES").ok();
    wanted.map_or(100_000, |number| number.parse().expect("MILLRACE_SOAK_FRAMES is a number"))
}

/// The cores of this thread before it was pinned, which it gets back: another test may run on it next.
struct Pinned(CpuSet);

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Keeps this thread away from the switch's core. Call it only once the switch runs: the switch inherits this thread's cores,
/// and [`cpu::Plan`] sees only those.
fn pin() -> Pinned {
    let before = sched_getaffinity(None).unwrap();
    let mut set = CpuSet::new();
    set.set(cpu::Plan::detect().guest());
    sched_setaffinity(None, &set).unwrap();
    Pinned(before)
}

/// Sends half of the frames each way.
fn soak(what: &str, millrace: &Millrace, exchange: &mut Exchange) {
    let frames = frames();
    let before = exchange.tally().sent[0];
    let began = Instant::now();
    let timeout = Duration::from_secs(60) + Duration::from_micros(20) * u32::try_from(frames).unwrap();
    let tally = exchange.run(frames / 2, timeout).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let all = before + frames / 2;
    assert_eq!((tally.sent, tally.received), ([all; 2], [all; 2]));
    let ports = ["a", "b"].map(|name| millrace.counted(name, all, all));
    let bytes: u64 = ports.iter().map(e2e::Port::rx_bytes).sum();
    println!(
        "{what}: {frames} frames, {:.1} GB, every byte checked, in {seconds:.1} s: {:.2} Mframes/s, {:.1} Gbit/s",
        bytes as f64 / 1e9,
        frames as f64 / seconds / 1e6,
        bytes as f64 * 8.0 / seconds / 1e9
    );
    for port in &ports {
        assert!(port.drops().is_empty(), "{what}: {:?}", port.0);
    }
}

/// Sends regardless of the receiver's buffers: all missing frames must be counted as dropped.
fn overrun(what: &str, millrace: &Millrace, exchange: &mut Exchange) {
    let goal = exchange.tally().sent[0] + 200_000;
    let mut steps = 0u64;
    while exchange.tally().sent != [goal; 2] {
        exchange.overrun(goal, steps.is_multiple_of(8)).unwrap();
        steps += 1;
    }
    let (tally, receivers) = wait_for("each frame to arrive or to be counted as dropped", || {
        exchange.receive().unwrap();
        let (tally, receivers) = (exchange.tally(), ["b", "a"].map(|name| millrace.port(name)));
        let all = (0..2).all(|way| tally.sent[way] == tally.received[way] + receivers[way].dropped());
        all.then_some((tally, receivers))
    });
    for (way, to) in receivers.iter().enumerate() {
        let name = &to.0.name;
        println!("{what}, overrun: {} frames for {name}, dropped {:?}", tally.sent[way], to.drops());
        assert_eq!(to.drops()["no-buffers"], to.dropped(), "{what}: {:?}", to.0);
        millrace.counted(name, tally.sent[1 - way], tally.received[way]);
    }
}

#[test]
fn through_a_patch() {
    let home = Home::new();
    let millrace = home.start((patched("a", "b"), e2e::poller()));
    let a = Options::new(home.socket("a")).connect().unwrap();
    let b = Options::new(home.socket("b")).packed().connect().unwrap();
    millrace.wait_up(&["a", "b"]);
    let _pinned = pin();
    let mut exchange = Exchange::new([a, b], [1, 2], SIZES, WINDOW);
    soak("patch", &millrace, &mut exchange);
    overrun("patch", &millrace, &mut exchange);
    millrace.stop();
}

#[test]
fn through_a_bridge() {
    let home = Home::new();
    // The third port shows which frames are flooded.
    let third = (sink("c"), bridge("br", ["a", "b", "c"]));
    let config = (vhost_user("a"), vhost_user("b"), third, e2e::poller());
    let millrace = home.start(&config);
    let a = Options::new(home.socket("a")).packed().in_order().connect().unwrap();
    let b = Options::new(home.socket("b")).in_order().connect().unwrap();
    millrace.wait_up(&["a", "b"]);
    let _pinned = pin();
    let mut exchange = Exchange::new([a, b], [1, 2], SIZES, WINDOW);
    // The first frame each way teaches the bridge the two addresses.
    exchange.run(1, e2e::SOON).unwrap();
    let flooded = millrace.port("c").tx();
    assert!((1..=2).contains(&flooded), "flooded {flooded} frames");
    soak("bridge", &millrace, &mut exchange);
    overrun("bridge", &millrace, &mut exchange);
    assert_eq!(millrace.port("c").tx(), flooded, "known addresses are flooded");
    millrace.stop();
}
