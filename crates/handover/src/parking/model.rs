//! Workers that park, and a parent that wakes them, in the interleavings that the memory model allows. A call that is lost leaves
//! a batch unclaimed while all workers wait, which loom reports. Each step has a broken twin that must fail.

use super::*;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// The steps, or a broken twin of one.
#[derive(Clone, Copy)]
struct Steps {
    wake: fn(&Parking, usize),
    park: fn(&mut Spot<'_>),
    end: fn(&Parking),
}

const STEPS: Steps = Steps { wake: Parking::wake, park: |spot| spot.park(), end: Parking::end };

/// Batches, without the frames: their numbers. `roles` has models of their content.
struct Batches {
    parking: Parking,
    published: AtomicUsize,
    claimed: AtomicUsize,
    given_back: AtomicUsize,
}

impl Batches {
    /// Returns batches forever: loom can't end a model in which a thread waits for ever while another one frees memory.
    fn new(workers: usize) -> &'static Batches {
        let zero = || AtomicUsize::new(0);
        let parking = Parking::new(workers);
        Box::leak(Box::new(Batches { parking, published: zero(), claimed: zero(), given_back: zero() }))
    }

    /// Claims the oldest unclaimed batch; returns its number. Like the claim of `roles`, one that finds none only loads.
    fn claim(&self) -> Option<usize> {
        let mut number = self.claimed.load(Ordering::Relaxed);
        while number < self.published.load(Ordering::Acquire) {
            match self.claimed.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(number),
                Err(now) => number = now,
            }
        }
        None
    }

    /// A worker's thread. The one that claims the last of `count` batches ends the parking.
    fn work(&self, count: usize, steps: Steps) {
        let mut spot = Spot::new(&self.parking);
        loop {
            match self.claim() {
                Some(number) => {
                    spot.leave();
                    self.given_back.fetch_add(1, Ordering::Release);
                    if number + 1 == count {
                        (steps.end)(&self.parking);
                    }
                }
                None if self.parking.is_over() => break spot.leave(),
                None => (steps.park)(&mut spot),
            }
        }
    }

    /// The parent's thread.
    fn publish(&self, count: usize, steps: Steps) {
        for number in 0..count {
            self.published.store(number + 1, Ordering::Release);
            (steps.wake)(&self.parking, number + 1 - self.given_back.load(Ordering::Acquire));
        }
    }
}

/// Workers claim the batches that a parent publishes, in the interleavings in which a thread is interrupted up to three
/// times, and with several workers twice: more would take minutes. Each broken twin is found with one interruption.
fn model(workers: usize, count: usize, steps: Steps) {
    let mut most = loom::model::Builder::new();
    most.preemption_bound = Some(if workers > 1 { 2 } else { 3 });
    most.check(move || {
        let batches = Batches::new(workers);
        // In threads of their own: loom cannot end a model whose first thread panics before the others run.
        let spawn = |run: fn(&Batches, usize, Steps)| thread::spawn(move || run(batches, count, steps));
        let mut threads: Vec<_> = (0..workers).map(|_| spawn(Batches::work)).collect();
        threads.push(spawn(Batches::publish));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(batches.claimed.load(Ordering::Relaxed), count);
        assert_eq!(batches.parking.parked.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_worker_that_parks_misses_no_batch() {
    model(1, 2, STEPS);
}

#[test]
fn workers_that_park_leave_no_batch_unclaimed() {
    model(2, 1, STEPS);
    model(2, 2, STEPS);
}

/// A parent that works is a worker that never parks. It takes the batch for which it wakes nobody.
#[test]
fn a_parent_that_works_leaves_no_batch_unclaimed() {
    loom::model(|| {
        let batches = Batches::new(2);
        let worker = thread::spawn(move || batches.work(1, STEPS));
        batches.published.store(1, Ordering::Release);
        batches.parking.wake(1);
        if batches.claim().is_some() {
            batches.parking.end();
        }
        worker.join().unwrap();
    });
}

#[test]
fn the_end_comes_to_all() {
    model_of_end(Parking::end);
}

fn model_of_end(end: fn(&Parking)) {
    loom::model(move || {
        let batches = Batches::new(1);
        let worker = thread::spawn(move || batches.work(1, STEPS));
        end(&batches.parking);
        worker.join().unwrap();
    });
}

/// [`Parking::wake`], with or without parts of it.
fn wake_by(parking: &Parking, is_needed: impl Fn(usize) -> bool, has_fence: bool, has_lock: bool) {
    if has_fence {
        fence(Ordering::SeqCst);
    }
    let parked = parking.parked.load(Ordering::Relaxed) as usize;
    if parked > 0 && is_needed(parked) {
        let _lot = has_lock.then(|| parking.lock());
        parking.call.notify_one();
    }
}

fn wake_whole(parking: &Parking, outstanding: usize) {
    wake_by(parking, |parked| outstanding > parking.workers - parked, true, true);
}

fn wake_without_fence(parking: &Parking, outstanding: usize) {
    wake_by(parking, |parked| outstanding > parking.workers - parked, false, true);
}

fn wake_without_lock(parking: &Parking, outstanding: usize) {
    wake_by(parking, |parked| outstanding > parking.workers - parked, true, false);
}

/// As if those that wait were awake.
fn wake_too_few(parking: &Parking, outstanding: usize) {
    wake_by(parking, |_| outstanding > parking.workers, true, true);
}

/// [`Spot::park`], with or without the fence.
fn park_by(spot: &mut Spot<'_>, has_fence: bool) {
    if spot.parked.is_some() {
        return spot.park();
    }
    let lot = spot.parking.lock();
    spot.parking.parked.fetch_add(1, Ordering::Relaxed);
    if has_fence {
        fence(Ordering::SeqCst);
    }
    spot.parked = Some(lot);
}

/// Waits without a last look.
fn park_at_once(spot: &mut Spot<'_>) {
    park_by(spot, true);
    spot.park();
}

fn end_without_lock(parking: &Parking) {
    parking.over.store(true, Ordering::Relaxed);
    parking.call.notify_all();
}

/// The twins only omit something of the steps.
#[test]
fn unbroken_twins_pass() {
    model(1, 2, Steps { wake: wake_whole, park: |spot| park_by(spot, true), ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_parent_without_a_fence_is_caught() {
    model(1, 1, Steps { wake: wake_without_fence, ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_without_a_fence_is_caught() {
    model(1, 1, Steps { park: |spot| park_by(spot, false), ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_parent_that_wakes_without_the_lock_is_caught() {
    model(1, 1, Steps { wake: wake_without_lock, ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_parent_that_wakes_too_few_is_caught() {
    model(2, 1, Steps { wake: wake_too_few, ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_that_does_not_look_again_is_caught() {
    model(1, 1, Steps { park: park_at_once, ..STEPS });
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_end_without_the_lock_is_caught() {
    model_of_end(end_without_lock);
}
