//! Pieces of a frame in memory outside Rust's control.

/// One contiguous piece of a frame, as pointer and length.
///
/// It is only a description: creating one is safe, reading the memory that it describes is not. The functions that read
/// state their requirements.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct RawSegment(libc::iovec);

// SAFETY: a segment is a description (address and length); only unsafe functions follow the pointer, and they require
// their caller to ensure that it may be followed.
unsafe impl Send for RawSegment {}
// SAFETY: as above; a shared segment offers only its two values.
unsafe impl Sync for RawSegment {}

impl RawSegment {
    /// Describes `len` bytes at `ptr`.
    pub const fn new(ptr: *const u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: ptr.cast_mut().cast(), iov_len: len })
    }

    /// Returns its address.
    pub const fn ptr(&self) -> *const u8 {
        self.0.iov_base.cast_const().cast()
    }

    /// Returns its length in bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Reports whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }

    /// Casts the segments to the kernel's type.
    pub(crate) const fn as_iovecs(segments: &[Self]) -> *const libc::iovec {
        segments.as_ptr().cast()
    }
}

impl From<&[u8]> for RawSegment {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes.as_ptr(), bytes.len())
    }
}
