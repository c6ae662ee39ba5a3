//! Buffers that a guest posted, filled by somebody else: the idea of receive queue mapping.
//!
//! A [`Loan`] leaves the queue, is filled by a NIC or another process, and comes back as a frame of a burst. If that
//! frame is then sent to the same guest, it is where it belongs already, and delivery is a header and a used entry.

use super::posted::Posted;
use crate::frame::MAX_BURST;
use crate::layout::NET_HEADER;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A buffer on loan. It must go back to the queue that lent it; to any other it is of no use.
#[derive(Debug)]
pub struct Loan {
    pub(super) buffer: Posted,
    pub(super) lender: u64,
}

// SAFETY: a `Loan` only names memory; whoever fills it has its own mapping, and only the lender follows the pointer.
unsafe impl Send for Loan {}

impl Loan {
    /// Where the virtio header begins, in our address space.
    pub fn addr(&self) -> u64 {
        self.buffer.ptr.addr() as u64
    }

    /// Bytes of the buffer, room for the virtio header included.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u32 {
        self.buffer.len
    }
}

/// A name for a queue that no other queue of this process ever has.
pub(super) fn lender() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Filled buffers of the present burst.
pub(super) struct Filled {
    entries: [Cell<Option<Posted>>; MAX_BURST],
    count: Cell<usize>,
    /// Where the next frame is expected: bursts keep their order.
    next: Cell<usize>,
}

impl Filled {
    pub(super) fn new() -> Filled {
        Filled { entries: [const { Cell::new(None) }; MAX_BURST], count: Cell::new(0), next: Cell::new(0) }
    }

    /// There are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Adds one; there is room for a burst.
    #[inline(always)]
    pub(super) fn push(&self, buffer: Posted) {
        let at = self.count.get();
        self.entries[at].set(Some(buffer));
        self.count.set(at + 1);
    }

    /// Takes the buffer whose frame begins at `frame`, if it is one of these.
    #[inline(always)]
    pub(super) fn claim(&self, frame: *const u8) -> Option<Posted> {
        let (start, count) = (self.next.get(), self.count.get());
        for step in 0..count {
            let at = if start + step < count { start + step } else { start + step - count };
            if let Some(buffer) = self.entries[at].get()
                && buffer.ptr.cast_const().wrapping_add(NET_HEADER as usize) == frame
            {
                self.entries[at].set(None);
                self.next.set(at + 1);
                return Some(buffer);
            }
        }
        None
    }

    /// Takes one that nobody claimed; none are left in the end.
    pub(super) fn pop(&self) -> Option<Posted> {
        while let Some(at) = self.count.get().checked_sub(1) {
            self.count.set(at);
            if let Some(buffer) = self.entries[at].take() {
                return Some(buffer);
            }
        }
        self.next.set(0);
        None
    }
}
