//! How much one call may do for a guest, in descriptors: frames alone say nothing, as one may lie in a thousand pieces.
//!
//! A queue that has spent its budget waits for its next turn. The last chain or frame may overdraw it, so that anything
//! legal passes by itself, however long: a call costs no more than the budget and [`crate::MAX_CHAIN`] on top.

use crate::frame::MAX_BURST;
use std::cell::Cell;

/// Descriptors for one call: eight for every frame of a burst. Drivers use one or two, and four for a jumbo frame.
pub(super) const DESCRIPTORS: u32 = 8 * MAX_BURST as u32;

/// Frames up to this length, in bytes, cost no more than any burst may.
pub(super) const USUAL_FRAME: u32 = 2048;

/// Bytes that are received by one call. The last frame may overdraw them.
pub(super) const BYTES: u64 = MAX_BURST as u64 * USUAL_FRAME as u64;

/// A buffer with so many bytes of a frame in it costs nothing but the copy, which is the sender's affair.
const FULL_BUFFER: u32 = 1024;

/// What is left for a call.
pub(super) struct Budget(Cell<u32>);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(Cell::new(DESCRIPTORS))
    }

    /// A new call begins.
    #[inline(always)]
    pub(super) fn renew(&self) {
        self.0.set(DESCRIPTORS);
    }

    /// Takes `descriptors` from it.
    pub(super) fn spend(&self, descriptors: u32) {
        self.0.set(self.0.get().saturating_sub(descriptors));
    }

    /// Nothing is left.
    #[inline(always)]
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// There is something left after `descriptors` more.
    pub(super) fn allows(&self, descriptors: u32) -> bool {
        descriptors < self.0.get()
    }
}

/// Cost of a frame of `bytes` that goes into so many buffers.
pub(super) fn cost(buffers: u32, bytes: u64) -> u32 {
    buffers.saturating_sub((bytes / u64::from(FULL_BUFFER)) as u32)
}
