//! The buffers that a guest posted, as a physical queue borrows them.

use super::mapped::KEEP_ALL;
use super::share::LEAST;
use crate::port::SessionFault;
use std::sync::Arc;
use virtqueue::device::{Aside, Borrower, Enqueue, Loan, Prefetch, Spliced, Terms};

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

    /// Splices by `splice`. Does nothing once pages of the guest's memory have vanished.
    #[inline(always)]
    pub(super) fn splice(&self, splice: impl FnOnce(&Enqueue) -> Spliced) -> Spliced {
        if self.ring.memory().is_broken() { Spliced::NOTHING } else { splice(&self.ring) }
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
        if let Err(fatal) = self.ring.read_ahead(keep, Prefetch::when(keep > LEAST)) {
            self.fault.raise(fatal);
            return 0;
        }
        let posted = self.ring.posted();
        let stay = waiting.len().saturating_sub(keep.saturating_sub(posted) as usize);
        waiting.drain(stay..).for_each(|loan| self.ring.give_back(loan));
        most.min(stay + posted.saturating_sub(keep) as usize)
    }

    /// Sets the guest's buffers of the present burst aside while others process its frames: [`Enqueue::set_aside`]. Called between
    /// [`super::ZeroCopyRx::receive_into`] and [`super::ZeroCopyRx::relend`], which then ends the burst without them.
    #[inline]
    #[must_use = "they are still the present burst's if it returns false"]
    pub fn set_aside(&self, aside: &mut Aside) -> bool {
        self.ring.set_aside(aside)
    }

    /// Makes these buffers those of the present burst: [`Enqueue::take_up`]. Called before their frames are sent to the guest, with
    /// no burst before it that has not ended; [`super::ZeroCopyRx::relend`] ends this one.
    #[inline]
    #[must_use = "they are still aside if it returns false"]
    pub fn take_up(&self, aside: &mut Aside) -> bool {
        self.ring.take_up(aside)
    }

    /// Returns all posted and unused buffers to the guest, if a successor could not tell which they are. All loans have to be back;
    /// if others still have some that were set aside, the guest loses its device, as it could not learn of them otherwise.
    pub fn close(&self) {
        self.ring.close();
        let aside = self.ring.aside();
        if aside > 0 {
            self.fault.withhold(format!("{aside} of its buffers are with workers that have not finished"));
        }
    }

    /// Returns the ring, to which loans are returned.
    #[inline(always)]
    pub(in crate::port) fn ring(&self) -> &Enqueue {
        &self.ring
    }
}
