//! Guests with as many queue pairs as a port can have.

use e2e::virtio::{Guest, Options, Sink, Sizes, Source};
use e2e::{Home, wait_for};
use lab::Result;
use lab::millrace::config::*;

/// The most that a port has.
const PAIRS: u16 = 128;
/// Frames each way on each pair.
const FRAMES: u64 = 16;
const SIZES: Sizes = 60..=1500;

/// Sends frames between these two ends, on the selected queue pairs, and waits until all have arrived, whole and in order.
fn send(from: &mut Guest, to: &mut Guest, [number, other]: [u8; 2]) -> Result<()> {
    let (mut source, mut sink) = (Source::new(number, other, SIZES), Sink::new(number, other, SIZES));
    for _ in 0..FRAMES {
        assert!(source.send(from)?, "there is room for all");
    }
    from.flush();
    wait_for("frames on the queue pair", || {
        to.receive(FRAMES as usize, |frame| sink.take(frame)).unwrap();
        (sink.received() == FRAMES).then_some(())
    });
    Ok(())
}

#[test]
fn frames_pass_both_ways_on_each_of_128_queue_pairs() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((patched("a", "b"), e2e::poller()));
    let small = |options: Options| options.pairs(PAIRS).queue_size(64).longest(1514);
    let mut a = small(Options::new(home.socket("a"))).connect()?;
    let mut b = small(Options::new(home.socket("b")).packed()).connect()?;
    millrace.wait_up(&["a", "b"]);
    // A patch keeps the number of the queue.
    for pair in (0..usize::from(PAIRS)).rev() {
        a.select(pair);
        b.select(pair);
        send(&mut a, &mut b, [1, 2])?;
        send(&mut b, &mut a, [2, 1])?;
    }
    let all = u64::from(PAIRS) * FRAMES;
    for port in ["a", "b"].map(|name| millrace.counted(name, all, all)) {
        let each: Vec<_> = port.0.queues.iter().map(|queue| (queue.rx_packets, queue.tx_packets)).collect();
        assert_eq!(each, vec![(FRAMES, FRAMES); PAIRS.into()]);
        assert!(port.drops().is_empty(), "{:?}", port.0);
    }
    // A guest with fewer queues comes after it.
    drop(a);
    millrace.wait_gone("a");
    let mut a = Options::new(home.socket("a")).connect()?;
    millrace.wait_up(&["a"]);
    b.select(0);
    send(&mut a, &mut b, [1, 2])?;
    b.select(usize::from(PAIRS) - 1);
    send(&mut b, &mut a, [2, 1])?;
    millrace.stop();
    Ok(())
}
