//! Bytes read by position, each at most once.
//!
//! A slice is the usual case. A frame in a guest's memory must not become a slice, because the guest may write to it at
//! any time; its owner implements [`Octets`] instead, so that the checked bytes are the bytes that are used.

/// The bytes from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub start: usize,
    /// Position after the last byte.
    pub end: usize,
}

/// Bytes readable by position.
pub trait Octets {
    /// Returns the number of bytes.
    fn size(&self) -> usize;

    /// Returns a copy of `N` bytes from `at`, read at once; `None` if there are not as many.
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]>;

    /// Returns the byte at `at`.
    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        self.read::<1>(at).map(|[byte]| byte)
    }

    /// Returns the big-endian 16-bit word at `at`.
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
        self.get(at..at.checked_add(N)?)?.first_chunk().copied()
    }
}
