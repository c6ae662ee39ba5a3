//! Workers that stall or panic, and devices that leave, while batches are out.

use super::rig::{
    ALL, DEADLINE, LOCKED, RSS, Rig, SEPARATE, crew, device, frame, number, process, processed, run, wait,
};
use nf::crew::{Crew, CrewOptions, Verdict, View};
use nf::{Idle, Options, PortOptions, Ports};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Holds the worker that gets one of some frames until the test lets it go.
struct Gate {
    holds: AtomicU64,
    arrived: Sender<()>,
    leave: Mutex<Receiver<()>>,
}

/// The test's side of a gate.
struct Keeper {
    arrived: Receiver<()>,
    leave: Sender<()>,
}

impl Gate {
    fn new(number: u64) -> (Arc<Gate>, Keeper) {
        let (arrived, is_arrived) = mpsc::channel();
        let (leave, is_left) = mpsc::channel();
        let gate = Gate { holds: number.into(), arrived, leave: is_left.into() };
        (Arc::new(gate), Keeper { arrived: is_arrived, leave })
    }

    fn pass(&self, number: u64) {
        if self.holds.load(Ordering::Relaxed) == number {
            self.arrived.send(()).unwrap();
            // Also if the test has failed.
            let _ = self.leave.lock().unwrap().recv();
        }
    }
}

/// Processes frames, and holds the worker of one of them.
fn gated(gate: &Arc<Gate>) -> impl Fn() -> Box<dyn FnMut(&mut View<'_>) -> Verdict + Send> + Send + use<> {
    let gate = gate.clone();
    move || {
        let gate = gate.clone();
        Box::new(move |view: &mut View| {
            gate.pass(process(view));
            Verdict::Back
        })
    }
}

impl Keeper {
    /// Exchanges 100 frames, sends the next one, which the gate holds, and waits until a worker has it.
    fn hold(&self, rig: &mut Rig<'_>) {
        rig.exchange(0..100, |n| frame(n, 0, 60));
        rig.send(&frame(100, 0, 60));
        self.wait();
    }

    fn wait(&self) {
        self.arrived.recv_timeout(DEADLINE).unwrap();
    }

    fn open(&self) {
        self.leave.send(()).unwrap();
    }
}

#[test]
fn a_worker_that_stalls_is_left_behind() {
    for workers in [2, 4] {
        let (gate, keeper) = Gate::new(100);
        let options = CrewOptions { patience: Duration::from_millis(100), ..crew(workers, SEPARATE) };
        let ended = run(
            options,
            |_| {},
            gated(&gate),
            |rig| {
                rig.send(&frame(100, 0, 60));
                keeper.wait();
                let mut received = Vec::new();
                for n in 101.. {
                    rig.send(&frame(n, 0, 60));
                    received.extend(rig.device().take());
                    if received.len() > 1000 {
                        break;
                    }
                    thread::yield_now();
                }
                assert!(received.iter().map(|frame| number(frame)).is_sorted(), "order is kept");
                assert!(number(&received[0]) > 100);
                keeper.open();
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert!(ended.dropped("worker-stalled") >= 1);
    }
}

/// Without a parent, a worker that stalls keeps its own frames: under a lock the other one takes all others, and with queues of
/// its own those of its queue.
#[test]
fn a_worker_that_stalls_without_a_parent_holds_up_no_other() {
    for (kind, others) in [(LOCKED, [0, 0]), (RSS, [0, 1])] {
        let (gate, keeper) = Gate::new(100);
        let ended = run(
            crew(2, kind),
            |_| {},
            gated(&gate),
            |rig| {
                rig.exchange(0..100, |n| frame(n, others[n as usize % 2], 60));
                rig.send(&frame(100, 0, 60));
                keeper.wait();
                let received = rig.exchange(101..1000, |n| frame(n, others[1], 60));
                assert!(received.iter().map(|frame| number(frame)).eq(101..1000));
                keeper.open();
                let mut last = Vec::new();
                rig.collect(&mut last, 1);
                assert_eq!(last, [processed(100, 0, 60)]);
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert_eq!(ended.port.transmitted, 1000);
    }
}

#[test]
fn a_worker_that_panics_ends_the_crew() {
    for kind in ALL {
        for workers in [1, 3] {
            let work = || {
                |view: &mut View| {
                    assert!(process(view) != 100, "frame 100 is not liked");
                    Verdict::Back
                }
            };
            let ended = run(
                crew(workers, kind),
                |_| {},
                work,
                |rig| {
                    (0..).take_while(|&n| rig.send(&frame(n, 0, 60))).for_each(drop);
                    let received = rig.device().take();
                    assert!(received.iter().all(|frame| number(frame) != 100));
                },
            );
            let message = ended.outcome.as_ref().unwrap_err().to_string();
            assert!(
                message.starts_with("worker ") && message.ends_with("panicked: frame 100 is not liked"),
                "{message}"
            );
            ended.is_conserved();
            assert!(ended.dropped("worker-panicked") >= 1);
        }
    }
}

#[test]
fn a_missing_port_is_an_error() {
    for kind in ALL {
        let ended = run(
            crew(2, kind),
            |_| {},
            || |_: &mut View| Verdict::Send(1),
            |rig| {
                (0..).take_while(|&n| rig.send(&frame(n, 0, 60))).for_each(drop);
            },
        );
        let message = ended.outcome.as_ref().unwrap_err().to_string();
        assert!(message.ends_with("panicked: a frame goes to port 1, and the last port is 0"), "{message}");
        ended.is_conserved();
        assert_eq!(ended.port.transmitted, 0);
    }
}

#[test]
fn a_device_may_leave_and_return_while_batches_are_out() {
    for kind in [SEPARATE, LOCKED] {
        let (gate, keeper) = Gate::new(100);
        let ended = run(
            crew(2, kind),
            |_| {},
            gated(&gate),
            |rig| {
                keeper.hold(rig);
                rig.device = None;
                rig.device = Some(device(&rig.socket));
                // The new device has the ports.
                rig.send(&frame(101, 0, 60));
                keeper.open();
                let mut received = Vec::new();
                rig.collect(&mut received, 2);
                if kind == LOCKED {
                    received.sort_by_key(|frame| number(frame));
                }
                assert_eq!(received, [processed(100, 0, 60), processed(101, 0, 60)]);
                let received = rig.exchange(102..500, |n| frame(n, 0, 60));
                assert_eq!(received.len(), 398);
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert_eq!(ended.port.received, 500);
    }
}

/// Workers with queues of their own end before the ports are opened again, and their functions keep their state.
#[test]
fn a_device_may_leave_and_return() {
    for kind in ALL {
        let total = AtomicU64::new(0);
        let work = || {
            let (mut count, total) = (0, &total);
            move |view: &mut View| {
                count += 1;
                total.fetch_max(count, Ordering::Relaxed);
                process(view);
                Verdict::Back
            }
        };
        let ended = run(
            crew(2, kind),
            |_| {},
            work,
            |rig| {
                for round in 0..3 {
                    if round > 0 {
                        rig.device = None;
                        rig.device = Some(device(&rig.socket));
                    }
                    let numbers = round * 400..(round + 1) * 400;
                    let mut received = rig.exchange(numbers.clone(), |n| frame(n, (n % 2) as u8, 60));
                    received.sort_by_key(|frame| number(frame));
                    assert!(received.into_iter().eq(numbers.map(|n| processed(n, (n % 2) as u8, 60))));
                }
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert_eq!((ended.port.received, ended.port.transmitted), (1200, 1200));
        assert!(kind != RSS || total.into_inner() == 600);
    }
}

#[test]
fn batches_that_are_out_at_the_end_are_sent() {
    for kind in ALL {
        let (gate, keeper) = Gate::new(100);
        let ended = run(
            crew(2, kind),
            |_| {},
            gated(&gate),
            |rig| {
                keeper.hold(rig);
                rig.stop.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
                assert!(!rig.ended.load(Ordering::Relaxed), "the crew waits for the worker");
                keeper.open();
                let mut received = Vec::new();
                rig.collect(&mut received, 1);
                assert_eq!(received, [processed(100, 0, 60)]);
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert_eq!(ended.port.transmitted, 101);
    }
}

#[test]
fn a_stop_while_the_device_is_away_ends_the_crew() {
    for kind in [SEPARATE, RSS] {
        let (gate, keeper) = Gate::new(100);
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("port");
        let stop = AtomicBool::new(false);
        let there = device(&socket);
        thread::scope(|scope| {
            let crew = scope.spawn(|| {
                let mut crew = Crew::new(crew(2, kind)).unwrap();
                let options = crew.options().adapt(Options::new(vec![PortOptions::new(&socket)]));
                let mut ports = Ports::open(options, &stop).unwrap();
                crew.run(&mut ports, Idle::Sleep, &stop, gated(&gate))
            });
            wait("room", || there.inject(&frame(100, 0, 60)).then_some(()));
            keeper.wait();
            drop(there);
            // The crew notices this in the meantime, or not before the stop.
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            keeper.open();
            if let Err(error) = crew.join().unwrap() {
                assert!(error.to_string().starts_with("port "), "{error}");
            }
        });
    }
}
