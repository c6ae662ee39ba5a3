//! Crews: every frame comes back, whatever happens to workers and to the device.

#[path = "../backend/mod.rs"]
mod backend;
mod failures;
mod rig;

use nf::Idle;
use nf::crew::{Crew, CrewOptions, Sharing, Verdict, View};
use rig::{BOTH, Rig, crew, frame, number, process, processed, run, run_idle, wait};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Checks that frames come back once each and right, and in order if there is a parent.
fn come_back(options: CrewOptions, packed: bool, flows: u64) {
    let (sharing, workers) = (options.sharing, options.workers);
    let (count, len) = (2000, |number: u64| 60 + (number * 37 % 1400) as usize);
    let work = || {
        |view: &mut View| {
            process(view);
            Verdict::Back
        }
    };
    let ended = run(
        options,
        |options| options.ports[0].packed = packed,
        work,
        |rig| {
            let mut received = rig.exchange(0..count, |n| frame(n, (n % flows) as u8, len(n)));
            if sharing == Sharing::Locked {
                received.sort_by_key(|frame| number(frame));
            }
            let numbers: Vec<_> = received.iter().map(|frame| number(frame)).collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{workers} workers, {sharing:?}");
            for (n, frame) in (0..).zip(&received) {
                assert!(*frame == processed(n, (n % flows) as u8, len(n)), "frame {n} is damaged");
            }
        },
    );
    ended.outcome.as_ref().unwrap();
    ended.is_conserved();
    assert_eq!((ended.port.received, ended.port.transmitted), (count, count));
    assert_eq!(ended.workers.len(), usize::from(workers));
    assert_eq!(ended.workers.iter().map(|worker| worker.packets).sum::<u64>(), count);
    assert!(ended.workers.iter().all(|worker| worker.batches <= worker.packets));
    assert_eq!(ended.parent.is_some(), sharing == Sharing::StaticRole);
    if let Some(parent) = ended.parent {
        assert_eq!((parent.batches, parent.packets), (ended.workers.iter().map(|worker| worker.batches).sum(), count));
        assert!(parent.receive_cycles > 0 && parent.send_cycles > 0);
    }
    assert!(ended.workers.iter().all(|worker| worker.batches == 0 || worker.work_cycles > 0));
}

#[test]
fn every_frame_comes_back_once_and_in_order() {
    for workers in [1, 2, 4, 8] {
        for (packed, flows) in [(false, 1), (true, 200)] {
            come_back(crew(workers, Sharing::StaticRole), packed, flows);
        }
    }
}

#[test]
fn every_frame_comes_back_once_under_a_lock() {
    for workers in [1, 2, 4, 8] {
        come_back(crew(workers, Sharing::Locked), workers % 4 == 0, workers.into());
    }
}

#[test]
fn a_view_has_all_buffers_of_a_frame() {
    for sharing in BOTH {
        let work = || {
            |view: &mut View| {
                assert_eq!(view.total_len(), 600);
                assert!(view.chunks().count() > 3 && view.port() == 0);
                process(view);
                Verdict::Send(0)
            }
        };
        let count = 300;
        let test = |rig: &mut Rig| {
            let mut received = rig.exchange(0..count, |n| frame(n, 0, 600));
            received.sort_by_key(|frame| number(frame));
            assert!(received == (0..count).map(|n| processed(n, 0, 600)).collect::<Vec<_>>());
        };
        // All frames under way fit into a queue.
        let ended = run(crew(2, sharing), |o| (o.buffer_size, o.ports[0].queue_size) = (128, 1024), work, test);
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
    }
}

#[test]
fn headers_may_be_added_and_removed() {
    let work = || {
        |view: &mut View| {
            view.prepend(4).unwrap().fill(9);
            view.strip(2).unwrap();
            view.set_len(61).unwrap();
            Verdict::Back
        }
    };
    let expected = |n| [&[9, 9], &frame(n, 0, 60)[..59]].concat();
    let test = |rig: &mut Rig| {
        let received = rig.exchange(0..100, |n| frame(n, 0, 60));
        assert_eq!(received, (0..100).map(expected).collect::<Vec<_>>());
    };
    run(crew(2, Sharing::StaticRole), |_| {}, work, test).outcome.unwrap();
}

#[test]
fn a_lone_frame_wakes_a_worker() {
    for (sharing, idle) in
        [(BOTH[0], Idle::Sleep), (BOTH[0], Idle::Poll), (BOTH[1], Idle::Sleep), (BOTH[1], Idle::Poll)]
    {
        let count = if idle == Idle::Poll { 20 } else { 200 };
        let workers = if idle == Idle::Poll { 1 } else { 4 };
        let work = || {
            |view: &mut View| {
                process(view);
                Verdict::Back
            }
        };
        let ended = run_idle(
            idle,
            crew(workers, sharing),
            |_| {},
            work,
            |rig| {
                for n in 0..count {
                    assert_eq!(rig.exchange(n..n + 1, |n| frame(n, 0, 60)), [processed(n, 0, 60)]);
                    // Now and then all have the time to rest.
                    thread::sleep(Duration::from_millis(if n % 20 == 0 { 5 } else { 0 }));
                }
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
    }
}

#[test]
fn what_a_worker_drops_is_counted() {
    for sharing in BOTH {
        let work = || |view: &mut View| if number(view).is_multiple_of(3) { Verdict::Drop } else { Verdict::Back };
        let ended = run(
            crew(2, sharing),
            |_| {},
            work,
            |rig| {
                for n in 0..90 {
                    rig.send(&frame(n, 0, 60));
                }
                let mut received = Vec::new();
                rig.collect(&mut received, 60);
                assert!(received.iter().all(|frame| !number(frame).is_multiple_of(3)));
            },
        );
        ended.outcome.as_ref().unwrap();
        ended.is_conserved();
        assert_eq!((ended.dropped("verdict"), ended.port.transmitted), (30, 60));
    }
}

#[test]
fn options_are_checked() {
    let wrong = |options| Crew::new(options).err().unwrap().to_string();
    assert_eq!(wrong(crew(0, Sharing::Locked)), "a crew of 0 workers: 1 to 64 are possible");
    let cpus = |cpus, sharing| CrewOptions { cpus, ..crew(2, sharing) };
    assert_eq!(
        wrong(cpus(vec![0, 1], Sharing::StaticRole)),
        "processors: 2 given, 3 needed: one for the parent, and one for each worker"
    );
    assert_eq!(wrong(cpus(vec![0], Sharing::Locked)), "processors: 1 given, 2 needed: one for each worker");
    for sharing in BOTH {
        let options =
            CrewOptions { cpus: vec![0, 100_000], ..crew(if sharing == Sharing::Locked { 2 } else { 1 }, sharing) };
        let ended = run(
            options,
            |_| {},
            || |_: &mut View| Verdict::Back,
            |rig| {
                wait("the error", || rig.ended.load(Ordering::Relaxed).then_some(()));
            },
        );
        let message = ended.outcome.unwrap_err().to_string();
        assert!(message.starts_with("can't run on processor 100000: "), "{message}");
    }
}
