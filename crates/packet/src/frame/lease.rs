//! A frame that may leave the worker of its queue.
#![allow(unsafe_code)]

use super::Segment;

/// A frame on its way through another worker. Unlike a [`super::Frame`] it borrows nothing: it names its queue and the chain
/// that the queue keeps for it, and its bytes stay mapped as long as it exists.
///
/// It must be returned to its queue. One that is dropped keeps its chain from the guest, and the memory mapped, for ever.
#[derive(Debug)]
#[must_use = "a lease that is not returned keeps its chain from the guest"]
pub struct Lease {
    ptr: *const u8,
    len: u32,
    chain: u16,
    queue: u64,
}

// SAFETY: it only names bytes that stay mapped as long as it exists; any thread may read them, as others may write them.
unsafe impl Send for Lease {}

impl Lease {
    /// Creates the lease of a frame that is `bytes`, in the chain of this id of `queue`.
    ///
    /// # Safety
    /// The bytes must stay mapped and readable as long as the lease exists, however long that is.
    #[inline(always)]
    pub unsafe fn new(bytes: Segment<'_>, chain: u16, queue: u64) -> Lease {
        Lease { ptr: bytes.as_ptr(), len: bytes.len(), chain, queue }
    }

    /// Returns the bytes of the frame, to be read or added to a [`super::Burst`].
    #[inline(always)]
    pub fn bytes(&self) -> Segment<'_> {
        // SAFETY: the creator of the lease keeps the bytes mapped as long as it exists, thus while it is borrowed.
        unsafe { Segment::new(self.ptr, self.len) }
    }

    /// Returns the id of the frame's chain.
    #[inline(always)]
    pub fn chain(&self) -> u16 {
        self.chain
    }

    /// Returns the queue that it has to be returned to.
    #[inline(always)]
    pub fn queue(&self) -> u64 {
        self.queue
    }
}
