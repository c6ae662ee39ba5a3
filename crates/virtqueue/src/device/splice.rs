//! Splicing: entries move from ring to ring, between a guest's queue and the one of a driver that reaches the guest's memory.
//!
//! ```text
//!   Enqueue::splice    used entry of the driver's ring ──► used entry of the guest's     frames to the guest, in its buffers
//!                      available entry of the guest's ──► descriptor of the driver's     buffers for the next ones
//!
//!   Dequeue::splice    available entry of the guest's ──► descriptor of the driver's     frames of the guest, where they lie
//!                      used entry of the driver's ring ──► used entry of the guest's     chains that were sent
//! ```
//!
//! One loop for each direction, without a burst in between: for frames that nobody looks at, or only at their Ethernet headers
//! ([`Pass`]). It moves chains of one buffer. At any other it stops, and leaves it to the general way: [`super::Enqueue::receive_filled`] and [`super::Enqueue::lend`], or
//! [`super::Dequeue::receive`] and [`super::Dequeue::keep`]. Both ways keep the same books, so that each burst can go by either.

use super::posted::Posted;
use super::ring::DeviceRing;
use crate::layout::NET_HEADER;
use crate::memory::Lookup;
use packet::{Ethernet, Segment};

/// Result of a splice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spliced {
    /// Frames that were moved on.
    pub frames: u32,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Entries that moved against the frames: buffers lent, or chains returned to the guest.
    pub back: u16,
    /// Frames of these whose checksum the switch finished ([`crate::driver::Run::leaves_checksums`]).
    pub finished: u32,
    /// Whether the next entry has to go the general way, which also reports errors of a ring.
    pub stopped: bool,
}

impl Spliced {
    /// Nothing moved, and all goes the general way.
    pub const NOTHING: Spliced = Spliced { frames: 0, bytes: 0, back: 0, finished: 0, stopped: true };

    /// Reports whether any entry moved.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.frames > 0 || self.back > 0
    }
}

/// Decides which frames are spliced.
pub trait Pass {
    /// Whether it looks at their headers. If not, no frame is fetched.
    const LOOKS: bool;

    /// Reports whether a frame with this header is spliced. If not, it goes the general way.
    fn passes(&mut self, header: Ethernet) -> bool;
}

/// Splices all frames, unseen.
pub struct Unseen;

impl Pass for Unseen {
    const LOOKS: bool = false;

    fn passes(&mut self, _: Ethernet) -> bool {
        true
    }
}

/// Splices frames whose headers pass a test. It is asked about each header that differs from the one before.
pub struct Seen<F> {
    last: Option<Ethernet>,
    test: F,
}

impl<F: FnMut(Ethernet) -> bool> Seen<F> {
    /// Returns the frames that pass `test`.
    pub fn by(test: F) -> Seen<F> {
        Seen { last: None, test }
    }
}

impl<F: FnMut(Ethernet) -> bool> Pass for Seen<F> {
    const LOOKS: bool = true;

    #[inline(always)]
    fn passes(&mut self, header: Ethernet) -> bool {
        let passes = self.last == Some(header) || (self.test)(header);
        if passes {
            self.last = Some(header);
        }
        passes
    }
}

/// Reports whether the frame of `len` bytes in this buffer, behind a virtio header, passes.
///
/// # Safety
/// The buffer must be mapped for both, by a memory that outlives the call.
#[inline(always)]
pub(super) unsafe fn passes<P: Pass>(pass: &mut P, buffer: &Posted, len: u32) -> bool {
    if !P::LOOKS {
        return true;
    }
    // SAFETY: as for this function.
    let frame = unsafe { Segment::new(buffer.ptr.add(NET_HEADER as usize), len) };
    Ethernet::in_place(frame).is_some_and(|header| pass.passes(header))
}

/// Returns the buffer of the next chain, if that is a usual one and its buffer mapped.
#[inline(always)]
pub(super) fn next<R: DeviceRing>(ring: &R, memory: Lookup<'_>, available: &R::Available) -> Option<Posted> {
    let (entry, usual) = ring.next_available(available);
    let (descriptor, id) = ring.read(entry).filter(|&(descriptor, _)| usual.is(descriptor))?;
    let len = descriptor.tail.len();
    let ptr = memory.translate(descriptor.addr, len.into())?.as_ptr();
    Some(Posted { ptr, len, id, slots: 1 })
}
