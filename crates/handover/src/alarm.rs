//! Wakes the worker of a lane that sleeps when a batch is published.
//!
//! Either the parent sees that the worker is about to sleep, or the worker sees the batch: each says its part, and then looks
//! for the other's, with a full fence in between.

use crate::sync::{AtomicBool, Ordering, fence};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The alarm of one worker.
pub struct Alarm {
    flag: Flag,
    /// Wakes the worker, as the control side does.
    wake: Arc<OwnedFd>,
}

/// Says that a worker is about to sleep, or sleeps.
struct Flag(AtomicBool);

impl Flag {
    /// The worker says that it is about to sleep. It must look for batches after this.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// The parent takes the flag. It must have published its batches, and made a full fence, before this.
    #[inline(always)]
    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

impl Alarm {
    /// Returns the alarm of the worker that `wake` wakes.
    pub fn new(wake: Arc<OwnedFd>) -> Alarm {
        Alarm { flag: Flag(AtomicBool::new(false)), wake }
    }

    /// Sets the alarm: the worker is about to sleep. It must look for batches after this.
    pub fn set(&self) {
        self.flag.set();
    }

    /// Ends the alarm: the worker is awake.
    pub fn end(&self) {
        self.flag.clear();
    }

    /// Wakes the worker if it sleeps. The parent must have made a full fence since it published batches.
    #[inline(always)]
    pub fn ring(&self) {
        if self.flag.take() {
            // A full counter wakes it too.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    /// The parent publishes a batch and rings; the worker sets its alarm, and sleeps if it sees no batch. Whichever way they
    /// interleave, a worker that sleeps is woken.
    fn nobody_sleeps_through(fence_of_parent: fn(), set: fn(&Flag)) {
        loom::model(move || {
            let shared = loom::sync::Arc::new((Flag(AtomicBool::new(false)), AtomicU64::new(0)));
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    set(&shared.0);
                    // Sleeps if there is no batch.
                    shared.1.load(Ordering::Relaxed) == 0
                })
            };
            shared.1.store(1, Ordering::Release);
            fence_of_parent();
            let rang = shared.0.take();
            let slept = worker.join().unwrap();
            assert!(rang || !slept, "a worker sleeps although there is a batch");
        });
    }

    fn full() {
        fence(Ordering::SeqCst);
    }

    #[test]
    fn one_sees_the_other() {
        nobody_sleeps_through(full, Flag::set);
    }

    #[test]
    #[should_panic(expected = "a worker sleeps although there is a batch")]
    fn a_parent_without_a_fence_is_caught() {
        nobody_sleeps_through(|| (), Flag::set);
    }

    #[test]
    #[should_panic(expected = "a worker sleeps although there is a batch")]
    fn a_worker_without_a_fence_is_caught() {
        nobody_sleeps_through(full, |flag| flag.0.store(true, Ordering::Relaxed));
    }
}
