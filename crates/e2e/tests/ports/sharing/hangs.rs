//! Workers of a shared queue that hang, each at a step of its own, while the other threads of the switch continue.

use super::*;
use lab::process::Halt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Frames that pass only if nothing waits for a worker that hangs: more than all batches of a queue hold.
const MANY: u64 = 2000;

/// Returns a switch with three workers, the first of which is the parent of `wan`; worker `own` polls `fw`.
fn switch(home: &Home, wire: &Wire, keys: RawPort, own: usize) -> Millrace {
    let mut workers = vec![RawWorker::default(); 3];
    workers[own].ports = ["fw".to_owned()].into_iter().collect();
    let millrace = home.start((shared(&keys, wire.port(false)), vhost_user("fw"), joined(), workers));
    millrace.wait_up(&["wan"]);
    millrace
}

/// Tells the sender that it is over, if the test panics, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends frames both ways as fast as it can while `test` runs. Then it checks that each frame that the switch sent to `fw` has
/// arrived there, once and in order.
fn while_frames_pass(millrace: &Millrace, ends: [Guest; 2], test: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut exchange = Exchange::new(ends, [1, 2], SIZES, WINDOW);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exchange.overrun(u64::MAX, true).unwrap();
            }
        });
        let _over = Over(&is_over);
        test()
    })?;
    wait_at_rest(millrace, "wan");
    wait_for("the last frames", || {
        exchange.receive().unwrap();
        (exchange.tally().received[1] == millrace.port("fw").tx()).then_some(())
    });
    Ok(())
}

/// Instructions that a thread executes at a time: every step of a worker takes more.
const STRIDE: usize = 32;

/// Stops a worker's thread, and lets it execute a few instructions at a time until it is at this position.
fn hang(millrace: &Millrace, worker: usize, place: &str) -> Result<Halt> {
    let mut halt = millrace.daemon.halt(&format!("worker-{worker}"))?;
    let deadline = Instant::now() + e2e::SOON;
    while millrace.stats().workers[worker].place != place {
        assert!(Instant::now() < deadline, "worker {worker} was never at {place}");
        halt.step(STRIDE)?;
    }
    Ok(halt)
}

/// Returns the frames of `wan` that a worker has processed.
fn processed(millrace: &Millrace, worker: usize) -> u64 {
    let lanes = &millrace.port("wan").0.queues[0].lanes;
    lanes.iter().find(|lane| lane.worker == worker).expect("it is one of its workers").rx_packets
}

/// Waits until each of these workers has processed many more frames.
fn wait_for_work(millrace: &Millrace, workers: &[usize]) {
    for &worker in workers {
        let before = processed(millrace, worker);
        wait_for(&format!("worker {worker} to process frames"), || {
            (processed(millrace, worker) > before + MANY).then_some(())
        });
    }
}

/// Waits until ports have got many more frames.
fn wait_for_frames(millrace: &Millrace, ports: &[&str]) {
    for port in ports {
        let before = millrace.port(port).tx();
        wait_for(&format!("frames to {port}"), || (millrace.port(port).tx() > before + MANY).then_some(()));
    }
}

/// Checks that `millrace ctl` answers, and says where a worker hangs.
fn is_shown(millrace: &Millrace, worker: usize, place: &str) {
    wait_for("the watchdog", || millrace.stats().workers[worker].hung_seconds);
    let workers = millrace.ctl("workers");
    assert!(workers.contains("hangs for") && workers.contains(place), "{workers}");
    assert!(millrace.ctl("stats").contains("wan"));
}

#[test]
fn a_worker_that_hangs_with_a_batch_blocks_no_other_worker() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let keys = parented(0, RawPort { stalled_after: "100ms".into(), ..roles(&[1, 2]) });
    let millrace = switch(&home, &wire, keys, 0);
    let ends = ends(&home, &millrace, &wire)?;
    let stalled = || millrace.port("wan").drops().get("worker-stalled").copied().unwrap_or(0);
    while_frames_pass(&millrace, ends, || {
        for (worker, other) in [(1, 2), (2, 1), (1, 2)] {
            wait_for_work(&millrace, &[1, 2]);
            // The other one claims nothing, so that there are batches.
            let rival = millrace.daemon.halt(&format!("worker-{other}"))?;
            let place = format!("port \"wan\" queue 0 lane {} (forward)", worker - 1);
            let halt = hang(&millrace, worker, &place)?;
            drop(rival);
            // More frames pass than there is room for behind the batch: the parent has continued without it.
            wait_for_frames(&millrace, &["fw", "wan"]);
            wait_for_work(&millrace, &[other]);
            is_shown(&millrace, worker, &place);
            let before = (processed(&millrace, worker), stalled());
            wait_for_work(&millrace, &[other]);
            assert_eq!(processed(&millrace, worker), before.0, "worker {worker} hangs");
            drop(halt);
            wait_for_work(&millrace, &[worker]);
            wait_for("its frames to be dropped", || (stalled() > before.1).then_some(()));
        }
        Ok(())
    })?;
    all_counted(&millrace);
    millrace.stop();
    Ok(())
}

/// Only the parent receives, so nothing arrives without it; everything else continues, and its workers wait for it.
#[test]
fn a_parent_that_hangs_holds_up_its_queue_only() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let millrace = switch(&home, &wire, static_roles(), 1);
    let ends = ends(&home, &millrace, &wire)?;
    while_frames_pass(&millrace, ends, || {
        for step in ["receive", "release"] {
            wait_for_work(&millrace, &[0, 1, 2]);
            let place = format!("port \"wan\" queue 0 ({step})");
            let halt = hang(&millrace, 0, &place)?;
            let before = millrace.port("fw").tx();
            wait_for_frames(&millrace, &["wan"]);
            is_shown(&millrace, 0, &place);
            assert_eq!(millrace.port("fw").tx(), before, "the parent hangs");
            drop(halt);
            wait_for_frames(&millrace, &["fw", "wan"]);
        }
        wait_for_work(&millrace, &[0, 1, 2]);
        Ok(())
    })?;
    nothing_vanished(&millrace);
    millrace.stop();
    Ok(())
}
