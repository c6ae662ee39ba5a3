//! Crews: every frame comes back, whatever happens to workers and to the device.

mod failures;
mod rig;

use nf::Idle;
use nf::crew::{Crew, CrewOptions, Sharing, Verdict, View};
use rig::{ALL, FLOW, LOCKED, RSS, Rig, SEPARATE, WORKS, crew, frame, number, process, processed, run, run_idle, wait};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Checks that frames come back once each and right, and in the order that the sharing keeps.
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
            match sharing {
                Sharing::StaticRole => {}
                Sharing::Locked => received.sort_by_key(|frame| number(frame)),
                Sharing::Rss => {
                    for flow in 0..flows {
                        let numbers = received.iter().filter(|frame| frame[FLOW] == !(flow as u8));
                        assert!(numbers.map(|frame| number(frame)).is_sorted(), "each flow keeps its order");
                    }
                    received.sort_by_key(|frame| number(frame));
                }
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
            come_back(crew(workers, SEPARATE), packed, flows);
            come_back(crew(workers, WORKS), packed, flows);
        }
    }
}

#[test]
fn every_frame_comes_back_once_under_a_lock() {
    for workers in [1, 2, 4, 8] {
        come_back(crew(workers, LOCKED), workers % 4 == 0, workers.into());
    }
}

#[test]
fn every_frame_comes_back_once_by_its_queue() {
    for workers in [1, 2, 4, 8] {
        for (packed, flows) in [(false, 1), (true, 200)] {
            come_back(crew(workers, RSS), packed, flows);
        }
    }
}

/// A function for each worker that writes the worker's number into frames.
fn numbered() -> impl Fn() -> Box<dyn FnMut(&mut View<'_>) -> Verdict + Send> + Send {
    let next = AtomicU8::new(0);
    move || {
        let worker = next.fetch_add(1, Ordering::Relaxed);
        Box::new(move |view: &mut View| {
            view[FLOW + 1] = worker;
            Verdict::Back
        })
    }
}

#[test]
fn each_queue_has_a_worker_of_its_own() {
    let ended = run(
        crew(3, RSS),
        |_| {},
        numbered(),
        |rig| {
            let received = rig.exchange(0..600, |n| frame(n, (n % 3) as u8, 60));
            assert!(received.iter().all(|frame| frame[FLOW] == frame[FLOW + 1]));
        },
    );
    ended.outcome.as_ref().unwrap();
    ended.is_conserved();
    assert!(ended.workers.iter().all(|worker| worker.packets == 200), "{:?}", ended.workers);
}

/// If more frames come than the parent can process, other workers get some, and the parent goes on working.
#[test]
fn a_working_parent_shares_its_excess_load() {
    let [parent, others] = [AtomicU64::new(0), AtomicU64::new(0)];
    let next = AtomicU8::new(0);
    let work = || {
        let is_parent = next.fetch_add(1, Ordering::Relaxed) == 0;
        let count = if is_parent { &parent } else { &others };
        move |_: &mut View| {
            count.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(if is_parent { 20 } else { 0 }));
            Verdict::Back
        }
    };
    let ended = run(
        crew(3, WORKS),
        |_| {},
        work,
        |rig| {
            let mut number = 0;
            wait("all to have frames", || {
                rig.device().inject(&frame(number, 0, 60));
                number += 1;
                rig.device().take();
                [&parent, &others].iter().all(|count| count.load(Ordering::Relaxed) > 0).then_some(())
            });
        },
    );
    ended.outcome.as_ref().unwrap();
    ended.is_conserved();
    let processed: Vec<_> = ended.workers.iter().map(|worker| worker.packets).collect();
    assert_eq!(processed[0], parent.into_inner());
    assert_eq!(processed[1..].iter().sum::<u64>(), others.into_inner());
}

#[test]
fn a_parent_that_works_alone_needs_no_thread() {
    let caller = Mutex::new(None);
    let work = || {
        // Functions are made by the calling thread.
        *caller.lock().unwrap() = Some(thread::current().id());
        let caller = &caller;
        move |_: &mut View| {
            assert_eq!(*caller.lock().unwrap(), Some(thread::current().id()));
            Verdict::Back
        }
    };
    let ended = run(
        crew(1, WORKS),
        |_| {},
        work,
        |rig| {
            rig.exchange(0..500, |n| frame(n, 0, 60));
        },
    );
    ended.outcome.as_ref().unwrap();
    ended.is_conserved();
    assert_eq!(ended.workers[0].packets, 500);
}

#[test]
fn a_view_has_all_buffers_of_a_frame() {
    for kind in ALL {
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
        // All frames in flight fit into a queue.
        let ended = run(crew(2, kind), |o| (o.buffer_size, o.ports[0].queue_size) = (128, 1024), work, test);
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
    run(crew(2, SEPARATE), |_| {}, work, test).outcome.unwrap();
}

#[test]
fn a_lone_frame_wakes_a_worker() {
    for (kind, idle) in
        ALL.into_iter().flat_map(|kind| [Idle::Sleep, Idle::SleepAtOnce, Idle::Poll].map(|idle| (kind, idle)))
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
            crew(workers, kind),
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
fn packets_that_a_worker_drops_are_counted() {
    for kind in ALL {
        let work = || |view: &mut View| if number(view).is_multiple_of(3) { Verdict::Drop } else { Verdict::Back };
        let ended = run(
            crew(2, kind),
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
    assert_eq!(wrong(crew(0, LOCKED)), "a crew of 0 workers: 1 to 64 are possible");
    let cpus = |cpus, kind| CrewOptions { cpus, ..crew(2, kind) };
    assert_eq!(
        wrong(cpus(vec![0, 1], SEPARATE)),
        "processors: 2 given, 3 needed: one for the parent, and one for each worker"
    );
    assert_eq!(
        wrong(cpus(vec![0, 1, 2], WORKS)),
        "processors: 3 given, 2 needed: one for the parent, and one for each other worker"
    );
    for kind in [LOCKED, RSS] {
        assert_eq!(wrong(cpus(vec![0], kind)), "processors: 1 given, 2 needed: one for each worker");
        assert_eq!(
            wrong(CrewOptions { parent: WORKS.parent, ..crew(2, kind) }),
            "a parent can work only with the sharing static-role: the others have no parent"
        );
    }
    for kind in ALL {
        let options = CrewOptions { cpus: vec![0, 100_000], ..crew(if kind == SEPARATE { 1 } else { 2 }, kind) };
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

#[test]
fn ports_are_opened_for_the_crew() {
    for (kind, workers) in [(RSS, 1), (SEPARATE, 2)] {
        let ended = run(
            crew(2, kind),
            |ports| ports.workers = workers,
            || |_: &mut View| Verdict::Back,
            |rig| wait("the error", || rig.ended.load(Ordering::Relaxed).then_some(())),
        );
        let message = ended.outcome.unwrap_err().to_string();
        let expected = format!("the ports were opened for {workers} workers, and the crew needs them opened for ");
        assert!(message.starts_with(&expected) && message.ends_with("pass their options through CrewOptions::adapt"));
    }
}
