//! Buffers that a guest posted, filled by somebody else: the idea of receive queue mapping.
//!
//! A [`Loan`] leaves the queue, is filled by a NIC or another process, and comes back as a frame of a burst. If that
//! frame is then sent to the same guest, it is where it belongs already, and delivery is a header and a used entry.

use super::place::{self, Placements};
use super::posted::Posted;
use crate::frame::{Frame, Frames, MAX_BURST, Segment};
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

/// Where a frame was written that came into a loan.
#[derive(Clone, Copy, Debug)]
pub struct Landing<'a> {
    /// Its first bytes, if they were written somewhere else.
    pub head: Option<Segment<'a>>,
    /// The rest: from which offset of the loan on, and how many bytes.
    pub at: u32,
    /// See above.
    pub len: u32,
}

impl Landing<'_> {
    /// `len` bytes right behind the virtio header, where a guest wants them.
    pub fn whole(len: u32) -> Self {
        Landing { head: None, at: NET_HEADER, len }
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
    placements: Placements,
}

/// A buffer that a frame was found in.
pub(super) struct Claimed {
    pub(super) buffer: Posted,
    /// The frame is where it belongs. If not, it will be when the burst ends, and the header is to be written then.
    pub(super) in_place: bool,
}

impl Filled {
    pub(super) fn new() -> Filled {
        Filled {
            entries: [const { Cell::new(None) }; MAX_BURST],
            count: Cell::new(0),
            next: Cell::new(0),
            placements: Placements::new(),
        }
    }

    /// There are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Adds one, for a frame that the burst had room for; there is room for a burst, and all of it is taken out before the next.
    #[inline(always)]
    pub(super) fn push(&self, buffer: Posted) {
        let at = self.count.get();
        self.entries[at].set(Some(buffer));
        self.count.set(at + 1);
    }

    /// Takes the buffer that `frame` lies in, if it is one of these and all of the frame can be.
    #[inline(always)]
    pub(super) fn claim(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<Claimed> {
        let body = place::body(frames, frame)?;
        let (start, count) = (self.next.get(), self.count.get());
        for step in 0..count {
            let at = if start + step < count { start + step } else { start + step - count };
            if let Some(buffer) = self.entries[at].get()
                && let Some(from) = place::offset(&buffer, &body, frame.len)
            {
                self.entries[at].set(None);
                self.next.set(at + 1);
                let in_place = from == NET_HEADER && frame.is_contiguous();
                if !in_place {
                    self.placements.add(&buffer, frames, frame, (body, from));
                }
                return Some(Claimed { buffer, in_place });
            }
        }
        None
    }

    /// Puts claimed frames where they belong, and hands each buffer whose frame was not to `finish`.
    #[inline(always)]
    pub(super) fn place(&self, finish: impl FnMut(*mut u8)) {
        self.placements.settle(finish);
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
