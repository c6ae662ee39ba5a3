//! A worker's mailbox: control threads leave items in it, and the worker empties it between two bursts.
//!
//! The worker checks one flag per round. It takes the lock only if the flag is set, and then waits for it no longer
//! than it takes to push or pop an item.

use crate::sync::{AtomicBool, Mutex, Ordering};
use std::collections::VecDeque;

/// Items waiting for a worker, in the order in which they were left.
pub struct Mailbox<J> {
    waiting: AtomicBool,
    room: usize,
    /// `None` once the worker has ended, so that nobody waits for it.
    left: Mutex<Option<VecDeque<J>>>,
}

impl<J> Mailbox<J> {
    /// Returns a mailbox with room for `room` items.
    pub fn new(room: usize) -> Self {
        Mailbox { waiting: AtomicBool::new(false), room, left: Mutex::new(Some(VecDeque::new())) }
    }

    /// Leaves an item. Returns it if there is no room or the worker has ended.
    pub fn leave(&self, one: J) -> Result<(), J> {
        let mut left = self.left.lock().unwrap();
        match left.as_mut() {
            Some(left) if left.len() < self.room => left.push_back(one),
            _ => return Err(one),
        }
        // Under the lock, so that it cannot override a concurrent `take`.
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// Reports whether items may be waiting; costs one load per round.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes up to `most` items, the oldest first.
    pub fn take(&self, most: usize) -> VecDeque<J> {
        let mut left = self.left.lock().unwrap();
        let Some(left) = left.as_mut() else { return VecDeque::new() };
        let rest = left.split_off(most.min(left.len()));
        self.waiting.store(!rest.is_empty(), Ordering::Relaxed);
        std::mem::replace(left, rest)
    }

    /// Closes the mailbox when the worker ends: returns the waiting items and accepts no more.
    pub fn close(&self) -> VecDeque<J> {
        self.left.lock().unwrap().take().unwrap_or_default()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// In every interleaving, each job is taken once, or returned because there is no room or the worker has ended;
    /// while any are waiting, the flag is set.
    fn no_job_is_lost(leave: fn(&Mailbox<i32>, i32) -> Result<(), i32>, room: usize, most: usize) {
        loom::model(move || {
            let mailbox = Arc::new(Mailbox::new(room));
            let control: Vec<_> = (0..2)
                .map(|job| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || leave(&mailbox, job).is_ok())
                })
                .collect();
            let mut taken = 0;
            for _ in 0..2 {
                if mailbox.is_waiting() {
                    let some = mailbox.take(most).len();
                    assert!((1..=most).contains(&some), "the flag says whether jobs wait");
                    taken += some;
                }
            }
            let left = control.into_iter().map(|t| t.join().unwrap()).filter(|&ok| ok).count();
            assert_eq!(mailbox.is_waiting(), taken < left, "the flag says whether jobs wait");
            taken += mailbox.close().len();
            assert_eq!(taken, left);
        });
    }

    #[test]
    fn all_at_once() {
        no_job_is_lost(Mailbox::leave, usize::MAX, usize::MAX);
    }

    #[test]
    fn one_at_a_time() {
        no_job_is_lost(Mailbox::leave, usize::MAX, 1);
    }

    #[test]
    fn with_room_for_one() {
        no_job_is_lost(Mailbox::leave, 1, 1);
    }

    #[test]
    #[should_panic(expected = "the flag says whether jobs wait")]
    fn a_flag_that_is_set_without_the_lock_is_caught() {
        let leave = |mailbox: &Mailbox<i32>, job| {
            mailbox.left.lock().unwrap().as_mut().unwrap().push_back(job);
            mailbox.waiting.store(true, Ordering::Release);
            Ok(())
        };
        no_job_is_lost(leave, usize::MAX, usize::MAX);
    }
}
