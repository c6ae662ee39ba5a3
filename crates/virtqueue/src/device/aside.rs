//! Filled loans that leave their burst before its frames are delivered: others process these frames meanwhile.
//!
//! ```text
//!   receive_filled ──► set_aside ──► settle           the burst ends without them
//!                          │
//!                        Aside      others read the frames, which stay where they are
//!                          ▼
//!                       take_up ──► transmit ──► settle
//! ```

use super::lend::{Filled, FilledBuffer};
use packet::MAX_BURST;

/// Filled loans of one burst, of which [`super::Enqueue::set_aside`] puts here those that are not delivered yet, and
/// [`super::Enqueue::take_up`] makes another burst. A queue may have any number of these, and takes them up in any order.
///
/// No other place has its buffers: one that is dropped with buffers in it keeps them from the guest until the guest resets its
/// queue. [`super::Enqueue::aside`] tells their number.
pub struct Aside {
    /// Number of the queue that lent them.
    queue: u64,
    entries: [Option<FilledBuffer>; MAX_BURST],
    /// Number of entries in use, from the first on.
    count: usize,
}

impl Default for Aside {
    fn default() -> Aside {
        Aside { queue: 0, entries: [None; MAX_BURST], count: 0 }
    }
}

impl Aside {
    /// Returns the number of loans.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Reports whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the unclaimed buffers of the present burst of `queue`, in order. Returns false, and takes nothing, if it has others of
    /// this queue, or if a frame has yet to be moved: the ring would publish its buffer before.
    #[inline]
    pub(super) fn take_from(&mut self, filled: &Filled, queue: u64) -> bool {
        // Buffers of a queue that is gone belong to no queue any more.
        let is_taken = self.queue == queue && !self.is_empty();
        if is_taken || filled.needs_fix_up() {
            return false;
        }
        self.queue = queue;
        self.count = 0;
        filled.take_all(|buffer| {
            self.entries[self.count] = Some(buffer);
            self.count += 1;
        });
        true
    }

    /// Makes its buffers those of the present burst of `queue`, in order. Returns false, and moves nothing, if they are not of this
    /// queue, or if the burst before has not ended.
    #[inline]
    pub(super) fn move_to(&mut self, filled: &Filled, queue: u64) -> bool {
        if self.is_empty() {
            return true;
        }
        if self.queue != queue || !filled.is_empty() || filled.needs_fix_up() {
            return false;
        }
        self.entries[..self.count].iter().flatten().for_each(|&buffer| filled.push(buffer));
        self.count = 0;
        true
    }
}

// The worker that has the queue keeps it beside a batch of frames, which goes to other threads and comes back.
const _: fn() = || {
    fn sent<T: Send>() {}
    sent::<Aside>();
};
