//! Frames that a device has received into the switch's own chunks.

use super::pool::Pool;
use super::unfinished::{self, Unfinished};
use crate::drops::{Drops, Reason};
use packet::{Burst, MAX_FRAME, MIN_FRAME, Segment};
use std::cell::RefCell;
use std::sync::Arc;

/// The own chunks of a receive half.
pub(super) struct OwnFrames {
    pub(super) pool: Pool,
    /// Chunks that have the present burst's frames, unless they are held.
    pub(super) taken: RefCell<Vec<u16>>,
    /// Parts of a frame whose last part has not arrived yet.
    parts: RefCell<Vec<Part>>,
    drops: Arc<Drops>,
    /// If frames may arrive whose checksums are unfinished.
    pub(super) unfinished: Option<Unfinished>,
}

/// A frame in a chunk, or a part of one.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The chunk.
    pub(super) chunk: u16,
    /// Address of its first byte, as the device knows it.
    pub(super) at: u64,
    /// Number of bytes.
    pub(super) len: u32,
    /// Whether the frame goes on in another chunk.
    pub(super) more: bool,
}

impl OwnFrames {
    pub(super) fn new(pool: Pool, drops: Arc<Drops>, unfinished: Option<Unfinished>) -> OwnFrames {
        let taken = RefCell::new(Vec::with_capacity(pool.count().into()));
        OwnFrames { pool, taken, parts: RefCell::default(), drops, unfinished }
    }

    /// Reports whether parts of a frame have arrived, and more will.
    #[inline(always)]
    pub(super) fn has_parts(&self) -> bool {
        !self.parts.borrow().is_empty()
    }

    /// Adds a frame to `burst`, once it is complete.
    #[inline(always)]
    pub(super) fn push<'q>(&'q self, part: Part, burst: &mut Burst<'_, 'q>) {
        if part.more || self.has_parts() {
            return self.push_part(part, burst);
        }
        let Part { chunk, at, len, .. } = part;
        if len >= MIN_FRAME
            && let Some(frame) = self.pool.segment(at, len)
        {
            if self.unfinished.is_some() {
                self.finish(std::iter::once(frame), std::iter::once((at, len)));
            }
            burst.push(frame);
        }
        self.taken.borrow_mut().push(chunk);
    }

    /// Like [`OwnFrames::push`], for a frame in several chunks.
    #[cold]
    fn push_part<'q>(&'q self, part: Part, burst: &mut Burst<'_, 'q>) {
        let mut parts = self.parts.borrow_mut();
        parts.push(part);
        if part.more {
            return;
        }
        let len: u32 = parts.iter().map(|part| part.len).sum();
        let segments = parts.iter().filter_map(|part| self.pool.segment(part.at, part.len));
        self.finish(segments.clone(), parts.iter().map(|part| (part.at, part.len)));
        let fits = (MIN_FRAME..=MAX_FRAME).contains(&len);
        if !fits || !burst.push_segments(segments) {
            self.drops.add(Reason::TooLong, 1);
        }
        self.taken.borrow_mut().extend(parts.drain(..).map(|part| part.chunk));
    }

    /// Drops a frame, whose last part may not have arrived yet, and returns its chunks.
    #[cold]
    pub(super) fn drop_parts(&self) {
        self.taken.borrow_mut().extend(self.parts.borrow_mut().drain(..).map(|part| part.chunk));
    }

    /// Counts a frame that is too long.
    #[cold]
    pub(super) fn count_too_long(&self) {
        self.drops.add(Reason::TooLong, 1);
    }

    /// Finishes the checksum of a frame in `parts`, by the device's addresses in the pool, if its sender left it to hardware that is not
    /// there.
    #[inline(never)]
    fn finish<'s>(&self, frame: impl Iterator<Item = Segment<'s>> + Clone, parts: impl Iterator<Item = (u64, u32)>) {
        if let Some(unfinished) = &self.unfinished
            && let Some(patch) = packet::unfinished::recognise(frame)
        {
            let parts = parts.filter_map(|(at, len)| Some((self.pool.in_arena(at)?, len)));
            unfinished::write(&patch, &self.pool.arena, parts);
            unfinished.note();
        }
    }
}
