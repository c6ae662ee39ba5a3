//! A queue that workers take turns at, under a lock. It is held while frames are received, and while their buffers are given
//! back, but not while frames are processed.
//!
//! A worker that finds the queue locked goes on with its round, and tries again in the next one: it never waits.

use super::prepare::prepare;
use crate::port::{Kept, ReceiveHalf, RxQueue};
use packet::{BurstStorage, LeasedFrames};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use vhost_user::Event;

/// Pause of a worker that sleeps: nobody wakes it.
pub(super) const PAUSE: Duration = Duration::from_micros(100);

/// A worker that has the queue may be preempted. This is longer than a machine keeps a thread from its CPU.
const PATIENCE: Duration = Duration::from_millis(200);

/// The queue, as the control side keeps it. `None` once it was taken back.
pub(crate) struct LockedQueue(Arc<Mutex<Option<ReceiveHalf>>>);

/// A worker's part of the queue.
pub(crate) struct LockedLane {
    queue: Arc<Mutex<Option<ReceiveHalf>>>,
    frames: LeasedFrames,
    /// Ids of the buffers to give back.
    held: Vec<u16>,
    /// Whether buffers were given back and the device was not notified.
    is_quiet: bool,
}

impl LockedQueue {
    /// Puts a queue behind a lock. Returns the half if its frames cannot be held.
    pub(crate) fn new(mut half: ReceiveHalf) -> Result<LockedQueue, ReceiveHalf> {
        prepare(&mut half, true);
        if half.holds().is_none() {
            return Err(half);
        }
        Ok(LockedQueue(Arc::new(Mutex::new(Some(half)))))
    }

    /// Returns the lane of one more worker.
    pub(crate) fn lane(&self) -> Option<LockedLane> {
        let memories = self.0.lock().as_ref()?.holds()?.memories();
        let frames = LeasedFrames::new(memories.into());
        let queue = self.0.clone();
        Some(LockedLane { queue, frames, held: Vec::new(), is_quiet: false })
    }

    /// Takes the queue back. Workers receive nothing from it after this. Fails if one hangs that has locked it.
    pub(crate) fn take(&self) -> Result<Option<ReceiveHalf>, Kept> {
        let mut half = self.lock()?.take();
        half.iter_mut().for_each(|half| prepare(half, false));
        Ok(half)
    }

    /// Replaces the descriptor that a worker waits for that has the queue alone.
    pub(crate) fn rewire(&self, kick: Option<Event>) -> Result<(), Kept> {
        if let Some(half) = self.lock()?.as_mut().and_then(|half| half.life_cycle()) {
            half.rewire(kick);
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<ReceiveHalf>>, Kept> {
        self.0.try_lock_for(PATIENCE).ok_or_else(|| Kept("a worker that does not respond has locked it".into()))
    }
}

impl LockedLane {
    /// Receives frames, if the queue has any and is not locked.
    #[inline]
    pub(super) fn claim(&mut self, storage: &mut BurstStorage) -> bool {
        let Some(queue) = self.queue.try_lock() else { return false };
        let Some(half) = queue.as_deref() else { return false };
        let Some(holds) = half.holds() else { return false };
        holds.give_back(&self.held);
        self.held.clear();
        let mut burst = storage.start();
        let any = half.receive(&mut burst);
        self.frames.clear();
        self.frames.add(burst.frames());
        holds.hold(&mut self.held);
        half.recycle();
        any
    }

    pub(super) fn frames(&self) -> &LeasedFrames {
        &self.frames
    }

    /// Gives the buffers back; if the queue is locked, with the next burst.
    #[inline]
    pub(super) fn give_back(&mut self) {
        let Some(queue) = self.queue.try_lock() else { return };
        Self::give_back_to(queue.as_deref(), &mut self.held);
        self.is_quiet = true;
    }

    fn give_back_to(half: Option<&dyn RxQueue>, held: &mut Vec<u16>) {
        if let Some(half) = half
            && let Some(holds) = half.holds()
        {
            holds.give_back(held);
            held.clear();
            half.recycle();
        }
    }

    /// Notifies the device of returned buffers, after a full fence.
    #[inline]
    pub(super) fn notify(&mut self) {
        if std::mem::take(&mut self.is_quiet) {
            match self.queue.try_lock() {
                Some(queue) => queue.iter().for_each(|half| half.notify()),
                None => self.is_quiet = true,
            }
        }
    }
}

impl Drop for LockedLane {
    /// Gives the last buffers back. If a worker hangs that has the queue, they are lost with it.
    fn drop(&mut self) {
        if let Some(queue) = self.queue.try_lock_for(PATIENCE) {
            Self::give_back_to(queue.as_deref(), &mut self.held);
        }
    }
}
