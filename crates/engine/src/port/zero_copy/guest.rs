//! The buffers that a guest posted, as a physical queue borrows them.

use crate::port::SessionFault;
use std::sync::Arc;
use virtqueue::device::{Enqueue, Loan};

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
    pub(super) fn lend(&self, room: u32, keep: u32) -> Option<Loan> {
        match self.ring.lend(room, keep) {
            Ok(loan) => loan,
            Err(fatal) => {
                self.fault.raise(fatal);
                None
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
