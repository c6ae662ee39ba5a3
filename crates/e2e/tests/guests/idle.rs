//! Cost of an idle Millrace, and its wake-up time.

use std::time::{Duration, Instant};

use e2e::Home;
use e2e::virtio::{Guest, Options, Sink, Source};
use lab::millrace::config::*;

/// Length and maximum number of the observations: activity left over from the start is not counted.
const WATCHED: Duration = Duration::from_secs(3);
const WATCHES: usize = 5;

/// Lone frames sent, and the pause before each: far longer than a worker keeps polling after a frame.
const LONE: u64 = 300;
const PAUSE: Duration = Duration::from_millis(3);

/// Connects guests that sleep until they are notified.
fn guests(home: &Home) -> (Guest, Guest) {
    let mut a = Options::new(home.socket("a")).connect().unwrap();
    let mut b = Options::new(home.socket("b")).packed().event_idx().connect().unwrap();
    a.arm();
    b.arm();
    (a, b)
}

#[test]
fn an_idle_switch_uses_no_cpu() {
    let home = Home::new();
    let millrace = home.start((patched("a", "b"), sleeper()));
    let _guests = guests(&home);
    millrace.wait_up(&["a", "b"]);
    let used = || {
        let (before, began) = (millrace.usage(), Instant::now());
        std::thread::sleep(WATCHED);
        let used = (millrace.usage().cpu - before.cpu).as_secs_f64() / began.elapsed().as_secs_f64();
        println!(
            "idle, two guests connected: {:.2} % of a core (in steps of {:.2} %)",
            used * 100.0,
            1.0 / WATCHED.as_secs_f64()
        );
        used
    };
    assert!((0..WATCHES).any(|_| used() < 0.01), "it never rests");
    millrace.stop();
}

#[test]
fn a_lone_frame_wakes_every_sleeper() {
    let home = Home::new();
    let millrace = home.start((patched("a", "b"), sleeper()));
    let (mut a, mut b) = guests(&home);
    millrace.wait_up(&["a", "b"]);
    let answering = std::thread::spawn(move || {
        let (mut source, mut sink) = (Source::new(2, 1, 60..=60), Sink::new(1, 2, 60..=60));
        while sink.received() < LONE {
            assert!(b.wait(e2e::SOON).unwrap(), "no frame came after {}", sink.received());
            b.receive(1, |frame| sink.take(frame)).unwrap();
            b.reap().unwrap();
            assert!(source.send(&mut b).unwrap());
            b.flush();
        }
        b
    });
    let (mut source, mut sink) = (Source::new(1, 2, 60..=60), Sink::new(2, 1, 60..=60));
    let mut times = Vec::new();
    for number in 0..LONE {
        std::thread::sleep(PAUSE);
        a.reap().unwrap();
        let began = Instant::now();
        assert!(source.send(&mut a).unwrap());
        a.flush();
        assert!(a.wait(e2e::SOON).unwrap(), "frame {number} did not come back");
        a.receive(1, |frame| sink.take(frame)).unwrap();
        times.push(began.elapsed());
    }
    let b = answering.join().unwrap();
    times.sort();
    let [median, worst] = [times[times.len() / 2], times[times.len() - 1]];
    println!("a lone frame there and back, everybody asleep: median {median:?}, worst {worst:?}");
    // Not a benchmark: a missed notification would take seconds, and a busy machine takes some milliseconds.
    assert!(median < Duration::from_millis(500), "median {median:?}");
    let worker = &millrace.stats().workers[0];
    // On a busy machine the next frame may come before the worker gets to sleep.
    assert!(worker.sleeps >= LONE / 4, "it slept {} times only", worker.sleeps);
    drop((a, b));
    millrace.stop();
}
