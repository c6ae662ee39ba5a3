//! A parent that leaves batches behind while workers claim and give back, in the interleavings that the memory model allows.

use super::*;
use crate::worker::{Claim, Worker};
use loom::thread;

/// A worker's way to end its claim.
type End = fn(Claim<'_, u64>);

fn complete(claim: Claim<'_, u64>) {
    claim.complete();
}

fn abandon(claim: Claim<'_, u64>) {
    drop(claim);
}

fn forget(claim: Claim<'_, u64>) {
    std::mem::forget(claim);
}

fn share(room: usize, workers: usize) -> (Parent<u64>, Vec<Worker<u64>>) {
    let (ring, keys) = Ring::new(room, room + workers, || 0);
    let ring = Arc::new(ring);
    let workers = (0..workers).map(|_| Worker::new(ring.clone())).collect();
    (Parent::new(ring, keys, room), workers)
}

/// Claims a batch, if there is one, changes it, and ends the claim; returns its number.
fn work(worker: &mut Worker<u64>, end: End) -> Option<u64> {
    let mut claim = worker.claim()?;
    let number = claim.sequence();
    assert_eq!(*claim, 100 + number, "a batch is read as it was published");
    *claim = 200 + number;
    end(claim);
    Some(number)
}

/// Publishes a batch, if one is free.
fn publish(parent: &mut Parent<u64>) -> bool {
    let number = parent.next;
    let Some(mut batch) = parent.free() else { return false };
    *batch = 100 + number;
    batch.publish();
    true
}

/// A parent with room for one batch publishes two; between them it does `leave`, and releases. One worker for each of `ends`
/// claims once and then ends, and another one claims the rest. Returns the outcomes, in the order of
/// publication.
fn two_batches<const N: usize>(leave: fn(&mut Parent<u64>) -> bool, ends: [End; N]) -> Vec<Outcome> {
    let (mut parent, mut workers) = share(1, N + 1);
    let mut rest = workers.pop().unwrap();
    let threads = workers.into_iter().zip(ends);
    let threads: Vec<_> = threads.map(|(mut worker, end)| thread::spawn(move || work(&mut worker, end))).collect();
    let mut outcomes = Vec::new();
    let mut collect = |batch: &mut u64, outcome| outcomes.push((*batch - 200, outcome));
    assert!(publish(&mut parent));
    assert!(!publish(&mut parent), "there is room for one");
    let is_behind = leave(&mut parent);
    parent.release(&mut collect);
    let published = 1 + u64::from(publish(&mut parent));
    assert!(published == 2 || !is_behind, "a batch that is left behind makes room");
    let mut claimed: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    claimed.extend(std::iter::from_fn(|| work(&mut rest, complete)));
    claimed.sort();
    assert!(claimed.into_iter().eq(0..published), "each batch is claimed once");
    parent.release(&mut collect);
    assert_eq!((parent.outstanding(), parent.left_behind()), (0, 0));
    outcomes.sort_by_key(|(number, _)| *number);
    assert!(outcomes.iter().map(|(number, _)| *number).eq(0..published), "each batch is released once");
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A batch is left behind before, while, and after a worker completes it.
#[test]
fn a_batch_left_behind_comes_back_once() {
    loom::model(|| {
        let outcomes = two_batches(Parent::leave_behind, [complete]);
        assert!(outcomes.iter().all(|outcome| *outcome != Outcome::Abandoned));
    });
}

#[test]
fn a_worker_that_drops_its_claim_abandons_it() {
    loom::model(|| {
        let outcomes = two_batches(Parent::leave_behind, [abandon]);
        assert!(outcomes.iter().filter(|outcome| **outcome == Outcome::Abandoned).count() <= 1);
    });
}

/// Two workers claim the batch, and the one that takes its place. All interleavings would take minutes: in these, a thread
/// is interrupted up to three times.
#[test]
fn workers_continue_when_one_is_left_behind() {
    let mut most = loom::model::Builder::new();
    most.preemption_bound = Some(3);
    most.check(|| _ = two_batches(Parent::leave_behind, [abandon, complete]));
}

/// A worker forgets its claim: the parent has to leave it behind for others to go on.
#[test]
fn a_worker_that_never_comes_back_withholds_one_batch() {
    loom::model(|| {
        let (mut parent, mut workers) = share(1, 2);
        let mut rest = workers.pop().unwrap();
        let mut lost = workers.pop().unwrap();
        let lost = thread::spawn(move || work(&mut lost, forget));
        assert!(publish(&mut parent));
        let was_left = parent.leave_behind();
        let is_lost = lost.join().unwrap().is_some();
        assert!(is_lost || !was_left, "only a batch that a worker holds is left behind");
        let is_left = was_left || parent.leave_behind();
        assert_eq!(is_left, is_lost);
        if is_lost {
            assert!(publish(&mut parent), "the spare takes its place");
        }
        assert!(work(&mut rest, complete).is_some());
        assert_eq!(parent.release(|_, outcome| assert_eq!(outcome, Outcome::Complete)), 1);
        assert_eq!((parent.outstanding(), parent.left_behind()), (usize::from(is_lost), usize::from(is_lost)));
    });
}

/// A claimed batch outlives the parent.
#[test]
fn batches_outlive_the_parent() {
    loom::model(|| {
        let (mut parent, mut workers) = share(1, 1);
        let mut worker = workers.pop().unwrap();
        let worker = thread::spawn(move || work(&mut worker, complete));
        assert!(publish(&mut parent));
        drop(parent);
        worker.join().unwrap();
    });
}

/// [`Parent::leave_behind`], without asking whether a worker holds the batch.
fn leave_behind_unasked(parent: &mut Parent<u64>) -> bool {
    let index = parent.order[parent.place(parent.front)];
    parent.ring.leave_behind(index);
    parent.left_behind.push(index);
    parent.front += 1;
    true
}

#[test]
#[should_panic(expected = "each batch is claimed once")]
fn a_batch_that_is_left_behind_unclaimed_is_caught() {
    loom::model(|| _ = two_batches(leave_behind_unasked, [complete]));
}
