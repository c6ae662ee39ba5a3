//! Frames: bytes borrowed from one queue on their way to another.

use crate::offload::Offload;

mod burst;
mod cursor;
mod ethernet;
mod frames;
mod judged;
mod leased;
mod offer;
mod segment;
mod trim;

pub use burst::{Burst, BurstStorage, Filling};
pub use cursor::{Cursor, Pieces};
pub use ethernet::Ethernet;
pub use frames::Frames;
pub use judged::{HEAD, Head, Headers, Heads, Judged, Judging, Kind, Selected, Taken, Unjudged};
pub use leased::{LeasedFrames, MappedMemory};
pub use offer::Offer;
pub use segment::Segment;

/// Maximum number of frames in a burst.
pub const MAX_BURST: usize = 32;

/// Length of a burst, in bytes, to which a queue adds no frame: that of as many usual frames as a burst may have.
pub const MAX_BURST_BYTES: u64 = MAX_BURST as u64 * USUAL_FRAME as u64;

/// Longest usual frame, in bytes.
pub const USUAL_FRAME: u32 = 2048;

/// Maximum number of further segments in a burst. A frame that alone has more is refused where it comes from.
pub const MAX_SEGMENTS: usize = 1024;

/// Shortest accepted frame in bytes: an Ethernet header.
pub const MIN_FRAME: u32 = 14;

/// Longest accepted frame in bytes: the longest IP packet, behind an Ethernet header with two tags.
pub const MAX_FRAME: u32 = 65_535 + 14 + 2 * 4;

/// One Ethernet frame: a first segment here, further ones (rare) in its burst.
///
/// In this order, the fields that are zero of most frames are written at once.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame<'a> {
    first: Segment<'a>,
    len: u32,
    origin: Origin,
    more_start: u16,
    more_len: u16,
    offload: Offload,
}

/// Origin of a frame: a guest's chain that can be kept ([`Frames::keep`]), with its place in the burst and its id; or one
/// of the places below.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The chain's place in the burst that its queue filled.
    pub place: u16,
    /// The id by which the queue releases it.
    pub id: u16,
}

impl Origin {
    /// A chain that cannot be kept, or memory that is no guest's.
    pub const OTHER: Origin = Origin { place: u16::MAX, id: 0 };

    /// A buffer of the guest that the frame may be for: the guest can write to it.
    pub const LENT: Origin = Origin { place: u16::MAX - 1, id: 0 };

    /// A frame that was received with others in it: this one is copied wherever it goes, as its buffer holds the others, too.
    pub const PART: Origin = Origin { place: u16::MAX - 2, id: 0 };

    /// A guest's chain of several buffers, in which the frame lies alone and whole. It can't be kept.
    pub const SPREAD: Origin = Origin { place: u16::MAX - 3, id: 0 };

    /// Reports whether this is a chain that can be kept.
    #[inline(always)]
    fn is_chain(self) -> bool {
        usize::from(self.place) < MAX_BURST
    }

    /// Returns the origin of a frame that is cut: a chain can no longer be kept, as no virtio header precedes the frame.
    #[inline(always)]
    fn cut(self) -> Origin {
        if self.place < Origin::PART.place { Origin::OTHER } else { self }
    }
}

impl<'a> Frame<'a> {
    /// Returns the frame of one segment, which lies where `origin` says.
    #[inline(always)]
    fn of(segment: Segment<'a>, origin: Origin) -> Frame<'a> {
        Frame { first: segment, len: segment.len(), more_start: 0, more_len: 0, origin, offload: Offload::NONE }
    }

    /// Returns the length of all segments together, in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // A frame is never empty.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the first segment; most frames have no other.
    #[inline(always)]
    pub fn first(&self) -> Segment<'a> {
        self.first
    }

    /// Reports whether the frame lies in one run of bytes.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.more_len == 0
    }

    /// Reports whether it was received into a buffer of the guest that it may be for ([`Origin::LENT`]).
    #[inline(always)]
    pub fn is_lent(&self) -> bool {
        self.origin.place == Origin::LENT.place
    }

    /// Reports whether it is one of several in a received frame ([`Origin::PART`]).
    #[inline(always)]
    pub fn is_part(&self) -> bool {
        self.origin.place == Origin::PART.place
    }

    /// Returns the place in its burst of the chain that the frame lies in, alone and whole after a virtio header.
    #[inline(always)]
    pub fn chain_place(&self) -> Option<u8> {
        self.origin.is_chain().then_some(self.origin.place as u8)
    }

    /// Reports whether it lies alone in a guest's chain of several buffers ([`Origin::SPREAD`]).
    #[inline(always)]
    pub fn is_spread(&self) -> bool {
        self.origin.place == Origin::SPREAD.place
    }

    /// Reports whether it is all that lies in a guest's chain, of one buffer or of several ([`Origin::SPREAD`]).
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.origin.is_chain() || self.is_spread()
    }

    /// Returns the work on the frame that its sender left to others.
    #[inline(always)]
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Drops the lifetime, as [`Segment::forget`] does.
    #[inline(always)]
    fn forget(&self) -> Frame<'static> {
        Frame {
            first: self.first.forget(),
            len: self.len,
            more_start: self.more_start,
            more_len: self.more_len,
            origin: self.origin,
            offload: self.offload,
        }
    }
}
