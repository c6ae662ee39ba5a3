//! The Ethernet header of a frame.

/// An Ethernet header, read once; two headers compare in two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Bytes 0 to 7, and bytes 6 to 13: the shortest frame has no more.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Ethernet {
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
