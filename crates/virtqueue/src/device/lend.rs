//! Posted guest buffers that a NIC or another process fills: the idea of receive queue mapping.
//!
//! A [`Loan`] leaves the queue, is filled, and comes back as a frame of a burst. If that frame is then sent to the same
//! guest, it already lies in the right buffer, and delivery takes only a header and a used entry.

use super::fixup::{self, Fixups};
use super::posted::Posted;
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Writer};
use packet::{Burst, Frame, Frames, MAX_BURST, Segment};
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

/// Terms on which a queue lends.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Minimum length of a buffer in bytes, in one run.
    pub room: u32,
    /// Number of buffers that stay in the queue, for frames that are copied.
    pub keep: u32,
    /// Maximum number of loans.
    pub most: usize,
}

/// Borrows buffers of a queue, to have them filled. Its methods should be inlined: they are called for every frame.
pub trait Borrower {
    /// Takes a loan, or refuses it: then the queue uses the buffer itself, and lends no more in this call.
    fn put(&mut self, loan: Loan) -> Result<(), Loan>;
}

/// Loans that came back. Its methods should be inlined: they are called for every frame.
pub trait FilledLoans<'q> {
    /// Returns the next loan, and where a frame lies in it. May also add frames that lie elsewhere to `burst`; it must return
    /// no loan when the burst is full.
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)>;

    /// Takes a loan that cannot hold its frame: it belongs to another queue or is too short.
    fn refused(&mut self, loan: Loan);
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
    /// Whether the filler wrote a valid virtio header at the start of the loan. If not, the queue writes it.
    pub has_header: bool,
}

/// How a sender tells that it left the checksum of a frame unfinished.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// Not at all: see [`packet::unfinished::recognise`].
    Nothing,
    /// By the virtio header that it wrote at the start of the loan: see [`crate::unfinished::by_header`].
    ByHeader,
}

impl Landing<'_> {
    /// Returns a landing of `len` bytes right behind the place of the virtio header, where the guest expects them.
    pub fn whole(len: u32) -> Self {
        Landing { head: None, at: NET_HEADER, len, has_header: false }
    }
}

/// Returns a number for a queue that is unique in this process; never zero.
pub(super) fn queue_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Filled buffers of the present burst.
pub(super) struct Filled {
    entries: [Cell<Option<FilledBuffer>>; MAX_BURST],
    count: Cell<usize>,
    /// Index at which the next frame is expected: bursts keep their order.
    next: Cell<usize>,
    fixups: Fixups,
}

/// A filled buffer.
#[derive(Clone, Copy)]
pub(super) struct FilledBuffer {
    pub(super) posted: Posted,
    /// As in [`Landing`].
    pub(super) has_header: bool,
}

/// A filled buffer that holds a given frame.
pub(super) struct Claimed {
    pub(super) buffer: Posted,
    /// The frame is at its final offset, and lacks a virtio header. If it is not, it is moved and its header written when the
    /// burst ends.
    pub(super) lacks_header: bool,
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
    pub(super) fn push(&self, filled: FilledBuffer) {
        let at = self.count.get();
        self.entries[at].set(Some(filled));
        self.count.set(at + 1);
    }

    /// Takes the buffer that `frame` lies in, if it is one of these and has room for the whole frame.
    #[inline(always)]
    pub(super) fn claim(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<Claimed> {
        // Nearly always, the next frame lies in the next buffer, where it was written.
        let next = self.next.get();
        if next < self.count.get()
            && let Some(FilledBuffer { posted, has_header }) = self.entries[next].get()
            && frame.is_contiguous()
            && frame.first().as_ptr().addr() == posted.ptr.addr() + NET_HEADER as usize
            && frame.len() + NET_HEADER <= posted.len
        {
            self.entries[next].set(None);
            self.next.set(next + 1);
            return Some(Claimed { buffer: posted, lacks_header: !has_header });
        }
        self.find(frames, frame)
    }

    /// As [`Filled::claim`], for any frame.
    fn find(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<Claimed> {
        if frame.is_part() {
            // Its buffer holds other frames, too, and goes back.
            return None;
        }
        let body = fixup::body(frames, frame)?;
        let (start, count) = (self.next.get(), self.count.get());
        for step in 0..count {
            let at = if start + step < count { start + step } else { start + step - count };
            if let Some(FilledBuffer { posted, has_header }) = self.entries[at].get()
                && let Some(from) = fixup::offset(&posted, &body, frame.len())
            {
                self.entries[at].set(None);
                self.next.set(at + 1);
                let in_place = from == NET_HEADER && frame.is_contiguous();
                if !in_place {
                    self.fixups.add(&posted, frames, frame, &body, from);
                }
                return Some(Claimed { buffer: posted, lacks_header: in_place && !has_header });
            }
        }
        None
    }

    /// Moves claimed frames to their final offset.
    #[inline(always)]
    pub(super) fn fix_up<L: DirtyLog>(&self, writer: &Writer<L>) {
        self.fixups.apply(writer);
    }

    /// Reports whether a claimed frame has yet to be moved.
    #[inline(always)]
    pub(super) fn needs_fix_up(&self) -> bool {
        !self.fixups.is_empty()
    }

    /// Takes all unclaimed buffers, in order. No entries are left.
    #[inline(always)]
    pub(super) fn take_all(&self, mut take: impl FnMut(FilledBuffer)) {
        self.entries[..self.count.take()].iter().filter_map(Cell::take).for_each(&mut take);
        self.next.set(0);
    }

    /// Takes an unclaimed buffer. When it returns `None`, no entries are left.
    pub(super) fn pop(&self) -> Option<Posted> {
        while let Some(at) = self.count.get().checked_sub(1) {
            self.count.set(at);
            if let Some(filled) = self.entries[at].take() {
                return Some(filled.posted);
            }
        }
        self.next.set(0);
        None
    }
}
