//! The parent's own worker: processes batches if the parent works, and claims batches that no other worker is left to claim.

use super::batch::Batch;
use super::error::CrewError;
use super::threads;
use super::view::{Verdict, View};
use super::worker::Work;
use crate::cycles::Cycles;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of the parent among the workers, if it works.
const NUMBER: usize = 1;

pub(super) struct Own<'c, W> {
    worker: roles::Worker<Batch>,
    /// `None` if the parent does not work, or no longer.
    work: Option<Work<'c, W>>,
    panicked: Option<Box<dyn Any + Send>>,
}

impl<'c, W: FnMut(&mut View<'_>) -> Verdict> Own<'c, W> {
    /// Returns the worker of a parent, which works if it has a function.
    pub(super) fn new(worker: roles::Worker<Batch>, work: Option<Work<'c, W>>) -> Own<'c, W> {
        Own { worker, work, panicked: None }
    }

    #[inline]
    pub(super) fn works(&self) -> bool {
        self.work.is_some()
    }

    /// If the parent works, processes the oldest unclaimed batch. Reports whether there was one.
    #[inline]
    pub(super) fn process_one(&mut self, ports: u16, cycles: &Cycles) -> bool {
        let Some(work) = &mut self.work else { return false };
        let start = cycles.now();
        let Some(claim) = self.worker.claim() else { return false };
        // A panic abandons the batch.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work.process(claim, ports, start, cycles))) {
            (self.work, self.panicked) = (None, Some(payload));
        }
        true
    }

    /// Abandons all unclaimed batches.
    pub(super) fn abandon_all(&mut self) {
        while let Some(claim) = self.worker.claim() {
            drop(claim);
        }
    }

    /// Fails if the parent's function has panicked.
    pub(super) fn outcome(self) -> Result<(), CrewError> {
        self.panicked.map_or(Ok(()), |payload| Err(threads::panicked(NUMBER, &*payload)))
    }
}
