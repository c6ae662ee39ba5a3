//! Bytes that are read by position, each at most once.
//!
//! A slice is the usual case. A frame that lies in a guest's memory must not become a slice, because the guest may
//! write to it at any time; its owner implements [`Octets`] instead, and what was checked is what is used.

/// Bytes that can be read by position.
pub trait Octets {
    /// How many there are.
    fn size(&self) -> usize;

    /// `N` bytes from `at`, copied out in one go; `None` if they don't all exist.
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]>;

    /// The byte at `at`.
    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        self.read::<1>(at).map(|[byte]| byte)
    }

    /// The big-endian 16-bit word at `at`.
    #[inline(always)]
    fn word(&self, at: usize) -> Option<u16> {
        self.read(at).map(u16::from_be_bytes)
    }
}

impl Octets for [u8] {
    #[inline(always)]
    fn size(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at..)?.first_chunk().copied()
    }
}
