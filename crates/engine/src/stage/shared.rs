//! A queue that several workers send to, one at a time.
//!
//! A worker locks it for a burst, and the others wait that long. A worker that hangs there would block them for ever,
//! so they wait for [`PATIENCE`], once, and then go on without it until the lock is free.

use super::egress::Egress;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A worker that holds the queue may be preempted. This is longer than a machine keeps a thread from its CPU.
const PATIENCE: Duration = Duration::from_millis(200);

/// The queue, if it is up.
type Slot = Option<Egress>;

/// A queue behind a lock.
pub(crate) struct Shared {
    slot: Mutex<Slot>,
    /// Whether a worker waited in vain.
    stuck: AtomicBool,
}

/// Another worker holds the queue, and does not release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker that does not respond is about to send there")]
pub(crate) struct Stuck;

impl Shared {
    pub(crate) fn new(egress: Slot) -> Shared {
        Shared { slot: Mutex::new(egress), stuck: AtomicBool::new(false) }
    }

    /// Locks the queue, if it is up, for a burst.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Slot>, Stuck> {
        match self.slot.try_lock() {
            Some(slot) if !self.stuck.load(Ordering::Relaxed) => Ok(slot),
            slot => self.lock_slowly(slot),
        }
    }

    #[cold]
    fn lock_slowly<'s>(&'s self, slot: Option<MutexGuard<'s, Slot>>) -> Result<MutexGuard<'s, Slot>, Stuck> {
        let stuck = self.stuck.load(Ordering::Relaxed);
        let slot = slot.or_else(|| if stuck { None } else { self.slot.try_lock_for(PATIENCE) });
        self.stuck.store(slot.is_none(), Ordering::Relaxed);
        slot.ok_or(Stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_held_for_ever_is_waited_for_once() {
        let shared = Shared::new(None);
        let held = shared.lock().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(shared.lock().err(), Some(Stuck));
                let began = std::time::Instant::now();
                let tries = (0..1_000).filter(|_| shared.lock().is_err()).count();
                (tries, began.elapsed())
            });
            let (tries, took) = other.join().unwrap();
            assert!(tries == 1_000 && took < 1_000 * PATIENCE / 2, "{tries} in {took:?}");
        });
        drop(held);
        assert!(shared.lock().is_ok() && !shared.stuck.load(Ordering::Relaxed));
    }
}
