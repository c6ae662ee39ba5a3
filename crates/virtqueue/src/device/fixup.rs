//! Frames in a filled buffer that are not where the guest expects them: behind the virtio header, in one piece.
//!
//! This happens when headers were stripped, or a VLAN tag was added or removed: the changed bytes lie elsewhere, and
//! the rest lies at the wrong offset. The frame is moved within the buffer only when the burst ends: until then other
//! ports may still copy the original.

use super::header::write_header;
use super::posted::Posted;
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Writer};
use packet::{Frame, Frames, MAX_BURST, Segment};
use std::cell::Cell;

/// Most bytes of a frame in front of the piece in the buffer: two addresses and a tag.
const HEAD: usize = 16;

/// A pending move within a buffer.
#[derive(Clone, Copy)]
struct Fixup {
    buffer: Posted,
    /// Offset of the piece in the buffer, and its length.
    from: u32,
    len: u32,
    /// Bytes between the virtio header and the piece.
    head: [u8; HEAD],
    head_len: u32,
}

/// Returns the piece of `frame` that can stay in a buffer: its last segment, preceded by at most a few bytes.
#[inline(always)]
pub(super) fn body<'b>(frames: &Frames<'b>, frame: &Frame<'b>) -> Option<Segment<'b>> {
    if frame.is_contiguous() {
        return Some(frame.first());
    }
    frames.segments(frame).last().filter(|last| frame.len() - last.len() <= HEAD as u32)
}

/// Returns the offset of `body` in a buffer that holds all of it and has room for a frame of `len` bytes.
#[inline(always)]
pub(super) fn offset(buffer: &Posted, body: &Segment<'_>, len: u32) -> Option<u32> {
    // An address before the buffer wraps to a huge offset.
    let from = body.as_ptr().addr().wrapping_sub(buffer.ptr.addr());
    let fits = from < buffer.len as usize && body.len() <= buffer.len - from as u32 && len + NET_HEADER <= buffer.len;
    fits.then_some(from as u32)
}

/// Pending moves of a burst.
pub(super) struct Fixups {
    entries: [Cell<Option<Fixup>>; MAX_BURST],
    count: Cell<usize>,
}

impl Fixups {
    pub(super) fn new() -> Fixups {
        Fixups { entries: [const { Cell::new(None) }; MAX_BURST], count: Cell::new(0) }
    }

    /// Records that `frame` must end up behind the header of `buffer`, which holds its `body` at `from`. At most once
    /// per filled buffer.
    pub(super) fn add(&self, buffer: &Posted, frames: &Frames<'_>, frame: &Frame<'_>, body: &Segment<'_>, from: u32) {
        let mut head = [0; HEAD];
        let head_len = frame.len() - body.len();
        frames.copy_to(frame, &mut head[..head_len as usize]);
        let count = self.count.get();
        self.entries[count].set(Some(Fixup { buffer: *buffer, from, len: body.len(), head, head_len }));
        self.count.set(count + 1);
    }

    /// Reports whether no move is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Makes all pending moves, and writes the headers in front.
    #[inline(always)]
    pub(super) fn apply<L: DirtyLog>(&self, writer: &Writer<L>) {
        for entry in &self.entries[..self.count.take()] {
            if let Some(fixup) = entry.take() {
                fixup.apply(writer);
            }
        }
    }
}

impl Fixup {
    #[inline(always)]
    fn apply<L: DirtyLog>(&self, writer: &Writer<L>) {
        let (from, len, head) = (self.from as usize, self.len as usize, self.head_len as usize);
        let (start, to) = (self.buffer.ptr, NET_HEADER as usize);
        // SAFETY: `offset` checked that the piece lies in the buffer at its old place, and fits behind the header and the head.
        // The buffer was checked to be mapped, by a memory that the queue holds. The guest, or the filler of a buffer that the
        // guest posted twice, may write to it meanwhile: its content is then undefined, but only that guest sees it.
        unsafe {
            if from != to + head {
                writer.shift(start.add(to + head), start.add(from), len);
            }
            writer.shift(start.add(to), self.head.as_ptr(), head);
            write_header(writer, start);
        }
    }
}
