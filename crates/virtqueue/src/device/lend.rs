//! Posted guest buffers that a NIC or another process fills: the idea of receive queue mapping.
//!
//! A [`Loan`] leaves the queue, is filled, and comes back as a frame of a burst. If that frame is then sent to the same
//! guest, it already lies in the right buffer, and delivery takes only a header and a used entry.

use super::fixup::{self, Fixups};
use super::posted::Posted;
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Writer};
use packet::{Frame, Frames, MAX_BURST, Segment};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A buffer on loan. It must return to the queue that lent it; other queues refuse it.
#[derive(Debug)]
pub struct Loan {
    pub(super) buffer: Posted,
    /// Number of the queue that lent it.
    pub(super) queue: u64,
}

impl Loan {
    /// Returns the address of the virtio header in our address space.
    pub fn addr(&self) -> u64 {
        self.buffer.ptr.addr() as u64
    }

    /// Returns the length of the buffer in bytes, including room for the virtio header.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u32 {
        self.buffer.len
    }
}

/// Location of a frame that was written into a loan.
#[derive(Clone, Copy, Debug)]
pub struct Landing<'a> {
    /// First bytes of the frame, if they were written elsewhere.
    pub head: Option<Segment<'a>>,
    /// Offset in the loan of the rest of the frame.
    pub at: u32,
    /// Length of that rest in bytes.
    pub len: u32,
}

impl Landing<'_> {
    /// Returns a landing of `len` bytes right behind the virtio header, where the guest expects them.
    pub fn whole(len: u32) -> Self {
        Landing { head: None, at: NET_HEADER, len }
    }
}

/// Returns a number for a queue that is unique in this process; never zero.
pub(super) fn queue_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Filled buffers of the present burst.
pub(super) struct Filled {
    entries: [Cell<Option<Posted>>; MAX_BURST],
    count: Cell<usize>,
    /// Index at which the next frame is expected: bursts keep their order.
    next: Cell<usize>,
    fixups: Fixups,
}

/// A filled buffer that holds a given frame.
pub(super) struct Claimed {
    pub(super) buffer: Posted,
    /// The frame is at its final offset. If not, it is moved and its header written when the burst ends.
    pub(super) in_place: bool,
}

impl Filled {
    pub(super) fn new() -> Filled {
        Filled {
            entries: [const { Cell::new(None) }; MAX_BURST],
            count: Cell::new(0),
            next: Cell::new(0),
            fixups: Fixups::new(),
        }
    }

    /// Reports whether there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Adds the buffer of a frame that the burst had room for. There is room for a full burst, and the next burst starts empty.
    #[inline(always)]
    pub(super) fn push(&self, buffer: Posted) {
        let at = self.count.get();
        self.entries[at].set(Some(buffer));
        self.count.set(at + 1);
    }

    /// Takes the buffer that `frame` lies in, if it is one of these and has room for the whole frame.
    #[inline(always)]
    pub(super) fn claim(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<Claimed> {
        let body = fixup::body(frames, frame)?;
        let (start, count) = (self.next.get(), self.count.get());
        for step in 0..count {
            let at = if start + step < count { start + step } else { start + step - count };
            if let Some(buffer) = self.entries[at].get()
                && let Some(from) = fixup::offset(&buffer, &body, frame.len())
            {
                self.entries[at].set(None);
                self.next.set(at + 1);
                let in_place = from == NET_HEADER && frame.is_contiguous();
                if !in_place {
                    self.fixups.add(&buffer, frames, frame, &body, from);
                }
                return Some(Claimed { buffer, in_place });
            }
        }
        None
    }

    /// Moves claimed frames to their final offset.
    #[inline(always)]
    pub(super) fn fix_up<L: DirtyLog>(&self, writer: &Writer<L>) {
        self.fixups.apply(writer);
    }

    /// Takes an unclaimed buffer. When it returns `None`, no entries are left.
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
