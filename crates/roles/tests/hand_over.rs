//! A parent and its workers on one thread: one test for each case of a step.
#![cfg(not(loom))]

use roles::{Claim, Outcome, Parent, share};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Fills a batch with `value`, and publishes it; reports whether one was free.
fn publish(parent: &mut Parent<u64>, value: u64) -> bool {
    let Some(mut batch) = parent.free() else { return false };
    *batch = value;
    batch.publish();
    true
}

/// Releases batches; returns their contents and outcomes.
fn release(parent: &mut Parent<u64>) -> Vec<(u64, Outcome)> {
    let mut released = Vec::new();
    let count = parent.release(|batch, outcome| released.push((*batch, outcome)));
    assert_eq!(count, released.len());
    released
}

#[test]
fn batches_are_released_in_the_order_of_publication() {
    let (mut parent, mut workers) = share(4, 3, || 0);
    (10..13).for_each(|value| assert!(publish(&mut parent, value)));
    let mut claims: Vec<_> = workers.iter_mut().map(|worker| worker.claim().unwrap()).collect();
    let claimed: Vec<_> = claims.iter().map(|claim| (claim.sequence(), **claim)).collect();
    assert_eq!(claimed, [(0, 10), (1, 11), (2, 12)]);
    claims.drain(1..).rev().for_each(Claim::complete);
    assert_eq!(release(&mut parent), [], "the first one is not complete");
    claims.remove(0).complete();
    assert_eq!(release(&mut parent), [10, 11, 12].map(|value| (value, Outcome::Complete)));
}

#[test]
fn a_full_queue_has_no_free_batch() {
    let (mut parent, mut workers) = share(3, 1, || 0);
    assert_eq!((0..9).filter(|&value| publish(&mut parent, value)).count(), 4, "the next power of two");
    assert_eq!(parent.outstanding(), 4);
    workers[0].claim().unwrap().complete();
    assert!(!publish(&mut parent, 9), "complete is not released");
    assert_eq!(release(&mut parent), [(0, Outcome::Complete)]);
    assert!(publish(&mut parent, 9) && !publish(&mut parent, 10));
}

#[test]
fn unpublished_batches_are_filled_further() {
    let (mut parent, mut workers) = share(2, 1, Vec::new);
    parent.free().unwrap().push(1);
    assert!(workers[0].claim().is_none());
    let mut batch = parent.free().unwrap();
    batch.push(2);
    batch.publish();
    assert_eq!(*workers[0].claim().unwrap(), [1, 2]);
}

#[test]
fn a_stalled_worker_is_left_behind_and_comes_back_late() {
    let (mut parent, mut workers) = share(2, 2, || 0);
    let (stalled, other) = workers.split_at_mut(1);
    publish(&mut parent, 0);
    assert_eq!(parent.oldest(), None, "nobody has claimed it");
    assert!(!parent.leave_behind(), "any worker may still claim it");
    let claim = stalled[0].claim().unwrap();
    publish(&mut parent, 1);
    other[0].claim().unwrap().complete();
    assert_eq!((parent.oldest(), release(&mut parent).len(), claim.is_left_behind()), (Some(0), 0, false));
    assert!(parent.leave_behind() && claim.is_left_behind());
    assert_eq!((parent.oldest(), parent.left_behind(), parent.outstanding()), (None, 1, 2));
    assert!(!parent.leave_behind(), "the next one is complete");
    assert_eq!(release(&mut parent), [(1, Outcome::Complete)]);
    for value in 2..9 {
        assert!(publish(&mut parent, value));
        other[0].claim().unwrap().complete();
        assert_eq!(release(&mut parent), [(value, Outcome::Complete)], "the others go on");
    }
    assert_eq!((*claim, claim.sequence()), (0, 0), "its batch is its own until it completes");
    claim.complete();
    assert_eq!(release(&mut parent), [(0, Outcome::Late)]);
    assert_eq!((parent.left_behind(), parent.outstanding()), (0, 0));
    publish(&mut parent, 9);
    publish(&mut parent, 10);
    assert!(!stalled[0].claim().unwrap().is_left_behind() && !other[0].claim().unwrap().is_left_behind());
}

#[test]
fn there_is_room_for_all_while_each_worker_has_a_batch_left_behind() {
    let (mut parent, mut workers) = share(1, 3, || 0);
    let (stalled, other) = workers.split_at_mut(2);
    let mut claims = Vec::new();
    for (value, worker) in (0..).zip(stalled) {
        publish(&mut parent, value);
        claims.push(worker.claim().unwrap());
        assert!(parent.leave_behind());
    }
    publish(&mut parent, 2);
    let last = other[0].claim().unwrap();
    assert!(parent.leave_behind());
    assert!(publish(&mut parent, 3), "one is left for workers that have none");
    claims.remove(1).complete();
    assert_eq!(release(&mut parent), [(1, Outcome::Late)], "in any order");
    drop((last, claims));
    let mut late = release(&mut parent);
    late.sort_by_key(|(value, _)| *value);
    assert_eq!(late, [(0, Outcome::Abandoned), (2, Outcome::Abandoned)]);
}

#[test]
fn a_worker_that_panics_abandons_its_batch() {
    let (mut parent, mut workers) = share(2, 1, || 0);
    publish(&mut parent, 7);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _claim = workers[0].claim().unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!(release(&mut parent), [(7, Outcome::Abandoned)]);
    assert!(workers[0].claim().is_none(), "it is not delivered twice");
}

#[test]
fn a_forgotten_claim_withholds_its_batch_and_nothing_else() {
    let (mut parent, mut workers) = share(1, 1, || 0);
    publish(&mut parent, 0);
    std::mem::forget(workers[0].claim());
    assert!(parent.leave_behind());
    assert_eq!((parent.outstanding(), parent.left_behind()), (1, 1));
    publish(&mut parent, 1);
    // Once more than the worker has spares: the queue stops, and says so.
    std::mem::forget(workers[0].claim());
    assert!(parent.leave_behind() && !publish(&mut parent, 2));
}

#[test]
fn a_release_that_panics_loses_no_batch() {
    let (mut parent, mut workers) = share(1, 1, || 0);
    publish(&mut parent, 0);
    workers[0].claim().unwrap().complete();
    let panicked = catch_unwind(AssertUnwindSafe(|| parent.release(|_, _| std::panic::resume_unwind(Box::new(())))));
    assert!(panicked.is_err());
    assert!(publish(&mut parent, 1));
    workers[0].claim().unwrap().complete();
    assert_eq!(release(&mut parent), [(1, Outcome::Complete)]);
}

#[test]
fn workers_and_parent_end_in_any_order() {
    let alive = std::sync::Arc::new(());
    let (mut parent, mut workers) = share(2, 2, || alive.clone());
    (0..2).for_each(|_| parent.free().unwrap().publish());
    let ended = workers.pop();
    drop(ended);
    let claim = workers[0].claim().unwrap();
    drop(parent);
    assert_eq!(std::sync::Arc::strong_count(&claim), 5, "batches live as long as a worker");
    claim.complete();
    assert!(workers[0].claim().is_some(), "what was published can still be claimed");
    drop(workers);
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}

#[test]
#[should_panic(expected = "room for at least one batch")]
fn no_room_is_refused() {
    drop(share(0, 1, || 0));
}

#[test]
#[should_panic(expected = "65536 batches are more than 65535")]
fn too_many_batches_are_refused() {
    drop(share(1 << 15, 1 << 15, || ()));
}
