//! A worker's part of a shared queue.

use super::batch::Batch;
use super::locked::LockedLane;
use crate::port::Wait;
use crate::port::zero_copy::Mix;
use handover::Alarm;
use packet::{BurstStorage, LeasedFrames};
use std::sync::Arc;

/// A worker's part of a shared queue: it claims frames, processes them, and gives them back.
pub(crate) enum Lane {
    /// Of a queue that has a parent.
    StaticRole(StaticLane),
    /// Of a queue behind a lock.
    Locked(LockedLane),
}

/// A lane of a queue that has a parent.
pub(crate) struct StaticLane {
    worker: roles::Worker<Batch>,
    alarm: Arc<Alarm>,
    /// Empty frames, for the worker's outputs to fill.
    handed: Vec<LeasedFrames>,
}

/// Frames that a lane has claimed.
pub(crate) enum Claimed<'l> {
    /// A batch.
    Batch(roles::Claim<'l, Batch>),
    /// Frames of a queue behind a lock.
    Locked(&'l mut LockedLane),
}

impl StaticLane {
    pub(super) fn new(worker: roles::Worker<Batch>, alarm: Arc<Alarm>, handed: Vec<LeasedFrames>) -> StaticLane {
        StaticLane { worker, alarm, handed }
    }
}

impl Lane {
    /// Takes the empty frames that the worker's outputs fill with what they hand over. There are none if they hand nothing
    /// over.
    pub(crate) fn take_handed(&mut self) -> Vec<LeasedFrames> {
        match self {
            Lane::StaticRole(lane) => std::mem::take(&mut lane.handed),
            Lane::Locked(_) => Vec::new(),
        }
    }

    /// Claims frames, if there are any.
    #[inline]
    pub(crate) fn claim(&mut self, storage: &mut BurstStorage) -> Option<Claimed<'_>> {
        match self {
            Lane::StaticRole(lane) => lane.worker.claim().map(Claimed::Batch),
            Lane::Locked(lane) => lane.claim(storage).then_some(Claimed::Locked(lane)),
        }
    }

    /// Notifies the device of returned buffers, after a full fence.
    #[inline]
    pub(crate) fn notify(&mut self) {
        if let Lane::Locked(lane) = self {
            lane.notify();
        }
    }

    /// Asks to be woken, and returns the condition to wait for.
    pub(crate) fn arm(&self) -> Wait {
        match self {
            Lane::StaticRole(lane) => {
                lane.alarm.set();
                if lane.worker.has_work() { Wait::Ready } else { Wait::Event }
            }
            Lane::Locked(_) => Wait::Time(super::locked::PAUSE),
        }
    }

    /// Asks no longer to be woken.
    pub(crate) fn disarm(&self) {
        if let Lane::StaticRole(lane) = self {
            lane.alarm.end();
        }
    }
}

impl Claimed<'_> {
    /// Returns the frames, and room for those that are handed over, by output of the lane.
    #[inline]
    pub(crate) fn frames(&mut self) -> (&LeasedFrames, &mut [LeasedFrames]) {
        match self {
            Claimed::Batch(claim) => {
                let Batch { frames, handed, .. } = &mut **claim;
                (frames, handed)
            }
            Claimed::Locked(lane) => (lane.frames(), &mut []),
        }
    }

    /// Gives the frames back, and asks for at most `at_once` in the next batches. A stage that takes frames apart reports their
    /// `mix`.
    #[inline]
    pub(crate) fn complete(self, mix: Option<Mix>, at_once: usize) {
        match self {
            Claimed::Batch(mut claim) => {
                (claim.mix, claim.at_once) = (mix, at_once);
                claim.complete();
            }
            Claimed::Locked(lane) => lane.give_back(),
        }
    }
}
