//! The Ethernet header of a frame.

use super::{MIN_FRAME, Segment};

/// An Ethernet header, read once; two headers compare in two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Bytes 0 to 7, and bytes 6 to 13: the shortest frame has no more.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Ethernet {
    /// Returns the header of a frame that is sent from where it lies, without a burst ([`super::Frames::judge`] is for all others):
    /// its sender can still change it there, so it must decide no more than where the frame goes. `None` if the frame is shorter than
    /// a header.
    #[inline(always)]
    pub fn in_place(frame: Segment<'_>) -> Option<Ethernet> {
        if frame.len() < MIN_FRAME {
            return None;
        }
        let word = |at| frame.read_at(at).map(u64::from_ne_bytes);
        Some(Ethernet { start: word(0)?, end: word(6)? })
    }

    /// Returns the destination address, its first byte lowest.
    #[inline(always)]
    pub fn destination(self) -> u64 {
        u64::from_le(self.start) & 0xffff_ffff_ffff
    }

    /// Returns the source address, its first byte lowest.
    #[inline(always)]
    pub fn source(self) -> u64 {
        u64::from_le(self.end) & 0xffff_ffff_ffff
    }
}
