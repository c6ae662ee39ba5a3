//! A selection of a burst's frames, read and sent.

use super::{Ethernet, Frame, MIN_FRAME, Offer, Segment};
use crate::offload::Offloads;
use std::cell::Cell;

/// Some frames of a burst, in order, on their way to a queue.
#[derive(Clone, Copy)]
pub struct Frames<'b> {
    pub(super) frames: &'b [Frame<'b>],
    pub(super) segments: &'b [Segment<'b>],
    pub(super) queue: u64,
    pub(super) kept: &'b Cell<u32>,
    pub(super) offer: Option<&'b Offer>,
    pub(super) may_exchange: bool,
    pub(super) offloads: Offloads,
}

impl<'b> Frames<'b> {
    /// Returns the frames.
    #[inline(always)]
    pub fn as_slice(&self) -> &'b [Frame<'b>] {
        self.frames
    }

    /// Returns the number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Reports whether there are no frames.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns all segments of `frame`, which must be one of these frames.
    #[inline(always)]
    pub fn segments(&self, frame: &Frame<'b>) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b> {
        let start = frame.more_start as usize;
        let more = &self.segments[start..start + frame.more_len as usize];
        std::iter::once(frame.first).chain(more.iter().copied())
    }

    /// Keeps the chain of `frame`: its queue does not return it to the guest until it is released by the returned id.
    /// Returns `None` if the frame has no chain that can be kept, or its queue is not `queue`. A virtio
    /// header before the frame belongs to the same buffer.
    #[inline(always)]
    pub fn keep(&self, frame: &Frame<'b>, queue: u64) -> Option<u16> {
        if self.queue != queue || queue == 0 || !frame.origin.is_chain() {
            return None;
        }
        self.kept.set(self.kept.get() | 1 << frame.origin.place);
        Some(frame.origin.id)
    }

    /// Keeps the chains at these places, as [`Frames::keep`] does one by one.
    #[inline(always)]
    pub fn keep_places(&self, places: u32) {
        self.kept.set(self.kept.get() | places);
    }

    /// Allows to exchange the buffers of these frames: each goes to one output only, and nobody reads it afterwards.
    #[inline(always)]
    pub fn exchangeable(self) -> Frames<'b> {
        Frames { may_exchange: true, ..self }
    }

    /// Forbids what [`Frames::exchangeable`] allows: others still read these frames.
    #[inline(always)]
    pub fn only_copied(self) -> Frames<'b> {
        Frames { may_exchange: false, ..self }
    }

    /// Reports whether the buffers of these frames may be exchanged.
    #[inline(always)]
    pub fn may_exchange(&self) -> bool {
        self.may_exchange
    }

    /// Returns the record of buffers given for those of these frames, if their queue has one.
    #[inline(always)]
    pub fn offer(&self) -> Option<&'b Offer> {
        self.offer
    }

    /// Returns what a receiver of all these frames must be able to do, or more: some of the frames may have gone elsewhere.
    #[inline(always)]
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Returns the number of frames that leave work to their receiver.
    pub fn left(&self) -> usize {
        self.frames.iter().filter(|frame| !frame.offload.is_none()).count()
    }

    /// Returns other frames with the same segments: a selection in an order of the caller's choice.
    #[inline(always)]
    pub fn select(&self, frames: &'b [Frame<'b>]) -> Frames<'b> {
        Frames { frames, ..*self }
    }

    /// Returns the Ethernet header of `frame`, which every frame has. See [`Frames::judge`].
    #[inline(always)]
    pub(super) fn ethernet(&self, frame: &Frame<'b>) -> Ethernet {
        Ethernet::in_place(frame.first).unwrap_or_else(|| self.ethernet_across(frame))
    }

    #[cold]
    fn ethernet_across(&self, frame: &Frame<'b>) -> Ethernet {
        // The header is written over a copy of the frame later.
        assert!(frame.len >= MIN_FRAME, "a frame without a whole header came into a burst");
        let mut bytes = [0; MIN_FRAME as usize];
        self.copy_to(frame, &mut bytes);
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Ethernet { start: word(0), end: word(6) }
    }

    /// Copies as much of `frame` as fits into `out`; returns the number of bytes.
    pub fn copy_to(&self, frame: &Frame<'b>, out: &mut [u8]) -> usize {
        self.segments(frame).fold(0, |filled, segment| filled + segment.copy_to(&mut out[filled..]))
    }
}
