//! Frames that lie in a filled buffer, but not where the guest wants them: behind the virtio header, in one piece.
//!
//! That is so when headers were taken off, or when a VLAN tag was added or removed: the bytes that changed lie somewhere
//! else, and the rest lies too far back or too far to the front. It is put right within the buffer, and only when the
//! burst ends: until then others may still copy the frame as it came.

use super::posted::Posted;
use crate::frame::{Frame, Frames, MAX_BURST, Segment};
use crate::layout::NET_HEADER;
use std::cell::Cell;

/// Most bytes that a frame may have in front of the piece that lies in the buffer: two addresses and a tag.
const HEAD: usize = 16;

/// What has to be done to a buffer.
#[derive(Clone, Copy)]
struct Placement {
    start: *mut u8,
    /// Where the piece lies in the buffer, and how long it is.
    from: u32,
    len: u32,
    /// What comes between the virtio header and that.
    head: [u8; HEAD],
    head_len: u32,
}

/// The one piece of `frame` that can stay in a buffer: its last one, behind a few bytes at most.
#[inline(always)]
pub(super) fn body<'b>(frames: &Frames<'b>, frame: &Frame<'b>) -> Option<Segment<'b>> {
    if frame.is_contiguous() {
        return Some(frame.first);
    }
    frames.segments(frame).last().filter(|last| frame.len - last.len() <= HEAD as u32)
}

/// Where `body` lies in a buffer, if all of it does and the buffer has room for a frame of `len` bytes.
#[inline(always)]
pub(super) fn offset(buffer: &Posted, body: &Segment<'_>, len: u32) -> Option<u32> {
    // What lies in front of the buffer is a huge number behind it.
    let from = body.as_ptr().addr().wrapping_sub(buffer.ptr.addr());
    let fits = from < buffer.len as usize && body.len() <= buffer.len - from as u32 && len + NET_HEADER <= buffer.len;
    fits.then_some(from as u32)
}

/// What has to be done to the buffers of a burst.
pub(super) struct Placements {
    entries: [Cell<Option<Placement>>; MAX_BURST],
    count: Cell<usize>,
}

impl Placements {
    pub(super) fn new() -> Placements {
        Placements { entries: [const { Cell::new(None) }; MAX_BURST], count: Cell::new(0) }
    }

    /// Notes that `frame` is to lie behind the header of `buffer`, which has its `body` at `from`. No more than one for each
    /// filled buffer.
    pub(super) fn add(
        &self,
        buffer: &Posted,
        frames: &Frames<'_>,
        frame: &Frame<'_>,
        (body, from): (Segment<'_>, u32),
    ) {
        let mut head = [0; HEAD];
        let head_len = frame.len - body.len();
        frames.copy_to(frame, &mut head[..head_len as usize]);
        let count = self.count.get();
        self.entries[count].set(Some(Placement { start: buffer.ptr, from, len: body.len(), head, head_len }));
        self.count.set(count + 1);
    }

    /// Puts everything where it is to be, and hands each buffer to `finish`.
    #[inline(always)]
    pub(super) fn settle(&self, mut finish: impl FnMut(*mut u8)) {
        for entry in &self.entries[..self.count.take()] {
            if let Some(placement) = entry.take() {
                placement.settle();
                finish(placement.start);
            }
        }
    }
}

impl Placement {
    #[inline(always)]
    fn settle(&self) {
        let (from, len, head) = (self.from as usize, self.len as usize, self.head_len as usize);
        let start = NET_HEADER as usize;
        // SAFETY: `offset` made sure that the piece lies in the buffer, where it is, and behind the header and the head.
        // The buffer was checked to be mapped, by a memory that the queue holds. It may be written to meanwhile, by the guest
        // or, if that posted it twice, by whoever fills it: then nobody knows what is in it, but it is the guest's own.
        unsafe {
            if from != start + head {
                self.start.add(from).copy_to(self.start.add(start + head), len);
            }
            self.head.as_ptr().copy_to(self.start.add(start), head);
        }
    }
}
