//! How the control side reaches a worker: it leaves a job, the worker takes it between two bursts.
//!
//! The worker looks at one flag a round. Only when the flag is up does it take the lock, which it then never waits
//! for longer than it takes to push or pop an element.

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Jobs that wait for a worker.
pub(crate) struct Mailbox<J> {
    waiting: AtomicBool,
    /// `None` once the worker has gone, so that nobody waits for it.
    jobs: Mutex<Option<Vec<J>>>,
}

impl<J> Mailbox<J> {
    pub(crate) fn new() -> Self {
        Mailbox { waiting: AtomicBool::new(false), jobs: Mutex::new(Some(Vec::new())) }
    }

    /// Leaves a job. Gives it back if the worker has gone.
    pub(crate) fn leave(&self, job: J) -> Result<(), J> {
        let mut jobs = self.jobs.lock().unwrap();
        match jobs.as_mut() {
            Some(waiting) => waiting.push(job),
            None => return Err(job),
        }
        // Under the lock, so that it can't undo a `take` that came between.
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// There may be jobs: one load, for every round.
    #[inline(always)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes all jobs.
    pub(crate) fn take(&self) -> Vec<J> {
        let mut jobs = self.jobs.lock().unwrap();
        self.waiting.store(false, Ordering::Relaxed);
        jobs.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The worker goes: what is left is given back, and nothing more is taken.
    pub(crate) fn close(&self) -> Vec<J> {
        self.jobs.lock().unwrap().take().unwrap_or_default()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever the interleaving: every job is taken once, or given back because the worker has gone.
    #[test]
    fn no_job_is_lost() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new());
            let control: Vec<_> = (0..2)
                .map(|job| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || mailbox.leave(job).is_ok())
                })
                .collect();
            let mut taken = Vec::new();
            for _ in 0..2 {
                if mailbox.is_waiting() {
                    taken.extend(mailbox.take());
                }
            }
            taken.extend(mailbox.close());
            let left = control.into_iter().map(|t| t.join().unwrap()).filter(|&ok| ok).count();
            assert_eq!(taken.len(), left);
        });
    }
}
