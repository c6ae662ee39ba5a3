//! How the control side reaches a worker: it leaves something, the worker takes it between two bursts.
//!
//! The worker looks at one flag a round. Only when the flag is up does it take the lock, which it then never waits
//! for longer than it takes to push or pop an element.

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::collections::VecDeque;
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// What waits for a worker, in the order in which it was left.
pub(crate) struct Mailbox<J> {
    waiting: AtomicBool,
    room: usize,
    /// `None` once the worker has gone, so that nobody waits for it.
    left: Mutex<Option<VecDeque<J>>>,
}

impl<J> Mailbox<J> {
    /// One with room for so many at a time.
    pub(crate) fn new(room: usize) -> Self {
        Mailbox { waiting: AtomicBool::new(false), room, left: Mutex::new(Some(VecDeque::new())) }
    }

    /// Leaves one. Gives it back if there is no room, or the worker has gone.
    pub(crate) fn leave(&self, one: J) -> Result<(), J> {
        let mut left = self.left.lock().unwrap();
        match left.as_mut() {
            Some(left) if left.len() < self.room => left.push_back(one),
            _ => return Err(one),
        }
        // Under the lock, so that it can't undo a `take` that came between.
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// There may be something: one load, for every round.
    #[inline(always)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes the oldest, at most so many.
    pub(crate) fn take(&self, most: usize) -> VecDeque<J> {
        let mut left = self.left.lock().unwrap();
        let Some(left) = left.as_mut() else { return VecDeque::new() };
        let rest = left.split_off(most.min(left.len()));
        self.waiting.store(!rest.is_empty(), Ordering::Relaxed);
        std::mem::replace(left, rest)
    }

    /// The worker goes: what is left is given back, and nothing more is taken.
    pub(crate) fn close(&self) -> VecDeque<J> {
        self.left.lock().unwrap().take().unwrap_or_default()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever the interleaving: every job is taken once, or given back because there is no room or the worker has
    /// gone; and while some are left, the flag is up.
    fn no_job_is_lost(room: usize, most: usize) {
        loom::model(move || {
            let mailbox = Arc::new(Mailbox::new(room));
            let control: Vec<_> = (0..2)
                .map(|job| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || mailbox.leave(job).is_ok())
                })
                .collect();
            let mut taken = 0;
            for _ in 0..2 {
                if mailbox.is_waiting() {
                    let some = mailbox.take(most).len();
                    assert!((1..=most).contains(&some));
                    taken += some;
                }
            }
            let left = control.into_iter().map(|t| t.join().unwrap()).filter(|&ok| ok).count();
            assert_eq!(mailbox.is_waiting(), taken < left);
            taken += mailbox.close().len();
            assert_eq!(taken, left);
        });
    }

    #[test]
    fn all_at_once() {
        no_job_is_lost(usize::MAX, usize::MAX);
    }

    #[test]
    fn one_at_a_time() {
        no_job_is_lost(usize::MAX, 1);
    }

    #[test]
    fn with_room_for_one() {
        no_job_is_lost(1, 1);
    }
}
