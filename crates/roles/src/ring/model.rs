//! The steps by which a key changes hands, in the interleavings that the memory model allows. Each step has a broken twin that
//! must fail.

use super::*;
use crate::sync::Arc;
use loom::thread;

type Claimed = Option<(u64, Key<u64>)>;
type TakenBack = Option<(Key<u64>, Outcome)>;

/// The steps, or a broken twin of one.
#[derive(Clone, Copy)]
struct Steps {
    publish: fn(&Ring<u64>, u64, Key<u64>) -> u16,
    claim: fn(&Ring<u64>) -> Claimed,
    give_back: fn(&Ring<u64>, Key<u64>, bool),
    take_back: fn(&Ring<u64>, u16) -> TakenBack,
}

const STEPS: Steps =
    Steps { publish: Ring::publish, claim: Ring::claim, give_back: Ring::give_back, take_back: Ring::take_back };

/// Claims a batch, if there is one, and gives it back with other content; returns its number.
fn work(ring: &Ring<u64>, steps: Steps) -> Option<u64> {
    let (number, mut key) = (steps.claim)(ring)?;
    assert_eq!(*ring.get(&key), 100 + number, "a batch is read as it was published");
    *ring.get_mut(&mut key) = 200 + number;
    (steps.give_back)(ring, key, true);
    Some(number)
}

/// A parent publishes its batches, and the first one again if it is back by then. Returns the indices, by number, and the
/// number of the oldest that is not back.
fn parent(ring: &Ring<u64>, keys: Vec<Key<u64>>, steps: Steps) -> (Vec<u16>, u64) {
    let publish = |number, mut key: Key<u64>| {
        *ring.get_mut(&mut key) = 100 + number;
        (steps.publish)(ring, number, key)
    };
    let mut order: Vec<_> = (0..).zip(keys).map(|(number, key)| publish(number, key)).collect();
    let Some(key) = take_back(ring, steps, order[0], 0) else { return (order, 0) };
    order.push(publish(order.len() as u64, key));
    (order, 1)
}

fn take_back(ring: &Ring<u64>, steps: Steps, index: u16, number: u64) -> Option<Key<u64>> {
    let (key, outcome) = (steps.take_back)(ring, index)?;
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(*ring.get(&key), 200 + number, "a batch is taken back as it was given back");
    Some(key)
}

/// Two workers try `each` claims while the parent is at work; then the rest is claimed and taken back.
fn hand_over(steps: Steps, batches: usize, each: usize) {
    let (ring, keys) = Ring::new(batches, batches, || 0);
    let ring = Arc::new(ring);
    let workers = [(); 2].map(|()| {
        let ring = ring.clone();
        thread::spawn(move || (0..each).filter_map(|_| work(&ring, steps)).collect::<Vec<_>>())
    });
    // In a thread of its own: loom cannot end a model whose first thread panics before the others run.
    let there = ring.clone();
    let (order, front) = thread::spawn(move || parent(&there, keys, steps)).join().unwrap();
    let mut claimed: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    claimed.extend(std::iter::from_fn(|| work(&ring, steps)));
    claimed.sort();
    assert!(claimed.into_iter().eq(0..order.len() as u64), "each batch is claimed once");
    for (number, index) in (0..).zip(order).skip(front as usize) {
        assert!(take_back(&ring, steps, index, number).is_some(), "a batch that was given back is taken back");
        assert!((steps.take_back)(&ring, index).is_none(), "and taken back once");
    }
}

/// Checks the interleavings with up to `preemptions` preemptions. All of them would take minutes; each broken
/// twin is found with one interruption.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut most = loom::model::Builder::new();
    most.preemption_bound = Some(preemptions);
    most.check(model);
}

/// Both workers are after one batch, which is published a second time.
#[test]
fn keys_change_hands_whole_and_once() {
    check(4, || hand_over(STEPS, 1, 1));
}

#[test]
fn workers_that_claim_at_once_get_different_batches() {
    check(3, || hand_over(STEPS, 2, 1));
}

#[test]
fn workers_that_claim_again_get_the_next_batch() {
    check(2, || hand_over(STEPS, 2, 2));
}

fn publish_relaxed(ring: &Ring<u64>, number: u64, key: Key<u64>) -> u16 {
    ring.entry(number).store(number << 16 | u64::from(key.0), Ordering::Relaxed);
    key.0
}

/// [`Ring::claim`] with an order of its own, and a way of its own to move the cursor.
fn claim_by(ring: &Ring<u64>, acquire: Ordering, advance: fn(&AtomicU64, u64) -> Result<u64, u64>) -> Claimed {
    let mut number = ring.claimed.0.load(Ordering::Relaxed);
    loop {
        let index = ring.entry(number).load(acquire).wrapping_sub(number << 16);
        if index >= ring.batches.len() as u64 {
            return None;
        }
        match advance(&ring.claimed.0, number) {
            Ok(_) => return Some((number, Key::new(index as u16))),
            Err(now) => number = now,
        }
    }
}

fn exchange(cursor: &AtomicU64, number: u64) -> Result<u64, u64> {
    cursor.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed)
}

fn load_and_store(cursor: &AtomicU64, number: u64) -> Result<u64, u64> {
    match cursor.load(Ordering::Relaxed) {
        now if now == number => {
            cursor.store(number + 1, Ordering::Relaxed);
            Ok(now)
        }
        now => Err(now),
    }
}

fn give_back_relaxed(ring: &Ring<u64>, key: Key<u64>, _: bool) {
    ring.batch(key.0).given_back.store(COMPLETE, Ordering::Relaxed);
}

fn take_back_relaxed(ring: &Ring<u64>, index: u16) -> TakenBack {
    let state = &ring.batch(index).given_back;
    if state.load(Ordering::Relaxed) == NOT_YET {
        return None;
    }
    state.store(NOT_YET, Ordering::Relaxed);
    Some((Key::new(index), Outcome::Complete))
}

fn take_back_unasked(_: &Ring<u64>, index: u16) -> TakenBack {
    Some((Key::new(index), Outcome::Complete))
}

/// The twins only omit something of the steps.
#[test]
fn unbroken_twins_pass() {
    let claim = |ring: &Ring<u64>| claim_by(ring, Ordering::Acquire, exchange);
    check(2, move || hand_over(Steps { claim, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_batch_that_is_published_relaxed_is_caught() {
    check(1, || hand_over(Steps { publish: publish_relaxed, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_batch_that_is_claimed_relaxed_is_caught() {
    let claim = |ring: &Ring<u64>| claim_by(ring, Ordering::Relaxed, exchange);
    check(1, move || hand_over(Steps { claim, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_cursor_that_is_moved_by_a_store_is_caught() {
    let claim = |ring: &Ring<u64>| claim_by(ring, Ordering::Acquire, load_and_store);
    check(1, move || hand_over(Steps { claim, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_batch_that_is_given_back_relaxed_is_caught() {
    check(1, || hand_over(Steps { give_back: give_back_relaxed, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_batch_that_is_taken_back_relaxed_is_caught() {
    check(1, || hand_over(Steps { take_back: take_back_relaxed, ..STEPS }, 2, 1));
}

#[test]
#[should_panic(expected = "a batch is taken back as it was given back")]
fn a_batch_that_is_taken_back_before_it_was_given_back_is_caught() {
    check(1, || hand_over(Steps { take_back: take_back_unasked, ..STEPS }, 2, 1));
}
