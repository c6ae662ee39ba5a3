//! A frame as a worker sees it, and the worker's decision.

use crate::memory::{Embedded, Packet};
use std::ops::{Deref, DerefMut};

/// A worker's decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Back to the port that it came from.
    Back,
    /// To the port with this number.
    Send(u16),
    /// Nowhere. It is counted as a drop for the reason `verdict`, at the port that it came from.
    Drop,
}

/// A frame of the batch that a worker has claimed.
///
/// It dereferences to the bytes of the frame's first buffer. [`View::chunks`] returns the bytes of all, if the device wrote it to
/// several.
#[derive(Debug)]
pub struct View<'a> {
    // No method may clone or drop a segment: see `batch.rs`.
    packet: &'a mut Packet,
    port: u16,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn new(packet: &'a mut Packet, port: u16) -> View<'a> {
        View { packet, port }
    }

    /// Returns the number of the port that it came from.
    #[inline]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the length of the whole frame.
    pub fn total_len(&self) -> usize {
        self.packet.total_len()
    }

    /// Returns the frame's bytes, buffer by buffer.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.packet.chunks()
    }

    /// Returns the frame's bytes, buffer by buffer, for writing.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.packet.chunks_mut()
    }

    /// Returns the packets embedded in the frame, like [`Packet::embedded`].
    pub fn embedded(&mut self) -> Embedded<'_> {
        self.packet.embedded()
    }

    /// Adds `count` bytes with arbitrary contents in front, like [`Packet::prepend`].
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        self.packet.prepend(count)
    }

    /// Removes `count` bytes in front, like [`Packet::strip`].
    pub fn strip(&mut self, count: usize) -> Option<()> {
        self.packet.strip(count)
    }

    /// Sets the length, like [`Packet::set_len`].
    pub fn set_len(&mut self, len: usize) -> Option<()> {
        self.packet.set_len(len)
    }
}

impl Deref for View<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.packet
    }
}

impl DerefMut for View<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.packet
    }
}
