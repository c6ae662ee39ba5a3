//! The buffers that a guest posted, as a physical queue borrows them.

use crate::port::SessionFault;
use std::sync::Arc;
use virtqueue::device::{Borrower, Enqueue, Terms};

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
