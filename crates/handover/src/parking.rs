//! Parking: workers without work wait in a lot until a batch is published.

use crate::sync::{AtomicBool, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, fence};
use std::sync::PoisonError;

#[cfg(all(test, loom))]
mod model;

/// The workers that wait for a batch. The parent neither locks nor calls the kernel unless one waits.
///
/// A parent that works is one of the workers, and never waits: it wakes no worker for a lone batch, which it takes itself. To
/// wake another thread costs a lock and a system call, the frames would have to move to its processor's cache, and they would
/// wait until it runs. A second batch wakes one: it would wait until the first is processed.
// On cache lines of its own: all read it, and it rarely changes.
#[repr(align(128))]
pub struct Parking {
    workers: usize,
    /// Workers that are about to wait, or wait.
    parked: AtomicU32,
    lot: Mutex<()>,
    call: Condvar,
    /// No more batches come.
    over: AtomicBool,
}

impl Parking {
    /// Returns the parking of this many workers.
    pub fn new(workers: usize) -> Parking {
        let (lot, call) = (Mutex::new(()), Condvar::new());
        Parking { workers, parked: AtomicU32::new(0), lot, call, over: AtomicBool::new(false) }
    }

    /// Wakes a worker if one waits, and the others can't be without work: `outstanding` batches are published and not given back.
    /// The parent calls this when it has published a batch.
    #[inline]
    pub fn wake(&self, outstanding: usize) {
        // Either the parent sees the worker that parks, or this sees the batch: it looks again once it has said that it parks.
        fence(Ordering::SeqCst);
        if self.lacks_workers(outstanding) {
            self.wake_one();
        }
    }

    /// Reports whether there are more batches than workers awake, and one waits. A worker holds one batch at a time: if there are
    /// not, one of those awake claims this batch.
    #[inline]
    fn lacks_workers(&self, outstanding: usize) -> bool {
        let parked = self.parked.load(Ordering::Relaxed) as usize;
        parked > 0 && outstanding > self.workers - parked
    }

    #[cold]
    fn wake_one(&self) {
        // With the lock, no worker is between its last look and its wait.
        let _lot = self.lock();
        self.call.notify_one();
    }

    /// Ends all waits, now and later.
    pub fn end(&self) {
        let _lot = self.lock();
        self.over.store(true, Ordering::Relaxed);
        self.call.notify_all();
    }

    /// Reports whether no more batches come.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parking spot of one worker.
pub struct Spot<'p> {
    parking: &'p Parking,
    /// While the worker is about to wait.
    parked: Option<MutexGuard<'p, ()>>,
}

impl<'p> Spot<'p> {
    /// Returns the spot of a worker, which is not parked.
    #[inline]
    pub fn new(parking: &'p Parking) -> Spot<'p> {
        Spot { parking, parked: None }
    }

    /// Parks after a vain claim, and waits after the next one. The worker then claims again.
    #[cold]
    pub fn park(&mut self) {
        self.parked = Some(match self.parked.take() {
            None => {
                let lot = self.parking.lock();
                self.parking.parked.fetch_add(1, Ordering::Relaxed);
                // With the fence of the parent: the worker claims once more before it waits.
                fence(Ordering::SeqCst);
                lot
            }
            Some(lot) => self.parking.call.wait(lot).unwrap_or_else(PoisonError::into_inner),
        });
    }

    /// Leaves if it is parked: there is a batch, or no more come.
    #[inline]
    pub fn leave(&mut self) {
        if self.parked.is_some() {
            self.drive_off();
        }
    }

    #[cold]
    fn drive_off(&mut self) {
        self.parking.parked.fetch_sub(1, Ordering::Relaxed);
        self.parked = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the numbers of batches, of up to four, for which a worker is woken.
    fn wakes(workers: usize, parked: u32) -> Vec<usize> {
        let parking = Parking::new(workers);
        parking.parked.store(parked, Ordering::Relaxed);
        (1..=4).filter(|&outstanding| parking.lacks_workers(outstanding)).collect()
    }

    #[test]
    fn a_worker_is_woken_if_those_awake_may_all_be_busy() {
        assert!(wakes(3, 0).is_empty());
        assert_eq!(wakes(3, 1), [3, 4]);
        assert_eq!(wakes(3, 3), [1, 2, 3, 4]);
        // A parent that works is always awake: with all others waiting, it takes a lone batch itself.
        assert_eq!(wakes(3, 2), [2, 3, 4]);
        assert!(wakes(1, 0).is_empty());
    }
}
