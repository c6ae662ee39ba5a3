//! The buffers that a guest posted, as a physical queue borrows them.

use super::mapped::KEEP_ALL;
use super::share::LEAST;
use crate::port::SessionFault;
use std::sync::Arc;
use virtqueue::device::{Borrower, Enqueue, Loan, Terms};

/// The buffers posted in a guest's receive queue.
pub struct GuestBuffers {
    ring: Enqueue,
    fault: Arc<SessionFault>,
}

impl GuestBuffers {
    /// Returns the buffers in `ring`. An error of the ring is raised in `fault`.
    pub(in crate::port) fn new(ring: Enqueue, fault: Arc<SessionFault>) -> GuestBuffers {
        GuestBuffers { ring, fault }
    }

    /// See [`Enqueue::lend`].
    #[inline(always)]
    pub(super) fn lend(&self, terms: Terms, borrower: &mut impl Borrower) -> usize {
        match self.ring.lend(terms, borrower) {
            Ok(lent) => lent,
            Err(fatal) => {
                self.fault.raise(fatal);
                0
            }
        }
    }

    /// Has `keep` buffers stay in the ring: gives it as many of the loans that wait as it lacks. Returns how many of the others
    /// and of its own it can lend, up to `most`.
    #[inline(never)]
    pub(super) fn ration(&self, waiting: &mut Vec<Loan>, most: usize, keep: u32) -> usize {
        if keep == KEEP_ALL {
            waiting.drain(..).for_each(|loan| self.ring.give_back(loan));
            self.ring.lend_no_more();
            return 0;
        }
        if let Err(fatal) = self.ring.set_aside(keep, keep > LEAST) {
            self.fault.raise(fatal);
            return 0;
        }
        let posted = self.ring.posted();
        let stay = waiting.len().saturating_sub(keep.saturating_sub(posted) as usize);
        waiting.drain(stay..).for_each(|loan| self.ring.give_back(loan));
        most.min(stay + posted.saturating_sub(keep) as usize)
    }

    /// Returns all posted and unused buffers to the guest, if a successor could not tell which they are.
    pub fn close(&self) {
        self.ring.close();
    }

    /// Returns the ring, to which loans are returned.
    #[inline(always)]
    pub(in crate::port) fn ring(&self) -> &Enqueue {
        &self.ring
    }
}
