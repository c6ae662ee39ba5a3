//! The work that one call may do for a guest, in descriptors: a frame count is no bound, as one frame may span a thousand.
//!
//! A queue that has spent its budget waits for its next turn. The last chain or frame may overdraw the budget, so that
//! any legal one passes alone, however long: a call costs at most the budget plus [`crate::MAX_CHAIN`].

use packet::MAX_BURST;
use std::cell::Cell;

/// Descriptors per call: eight per frame of a burst. Drivers use one or two, and four for a jumbo frame.
pub(super) const DESCRIPTORS: u32 = 8 * MAX_BURST as u32;

/// Bytes per buffer from which a buffer costs nothing but the copy, which the sender's budget bounds.
const FULL_BUFFER: u32 = 1024;

/// The remaining budget of a call.
pub(super) struct Budget(Cell<u32>);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(Cell::new(DESCRIPTORS))
    }

    /// Resets the budget for a new call.
    #[inline(always)]
    pub(super) fn renew(&self) {
        self.0.set(DESCRIPTORS);
    }

    /// Charges `descriptors` to the budget.
    pub(super) fn spend(&self, descriptors: u32) {
        self.0.set(self.0.get().saturating_sub(descriptors));
    }

    /// Reports whether nothing is left.
    #[inline(always)]
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Reports whether something is left after `descriptors` more.
    pub(super) fn allows(&self, descriptors: u32) -> bool {
        descriptors < self.0.get()
    }
}

/// Returns the cost of a frame of `bytes` that fills this many buffers.
pub(super) fn cost(buffers: u32, bytes: u64) -> u32 {
    buffers.saturating_sub((bytes / u64::from(FULL_BUFFER)) as u32)
}
