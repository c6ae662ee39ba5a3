//! The parts of a ring in memory.

use super::mapping::RingMapping;
use super::ordering;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Addresses of the parts of a ring.
#[derive(Debug)]
pub(crate) struct RingParts<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    /// Absent in kernels before 5.4.
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    /// A power of two.
    pub(super) size: u32,
    /// The mapping of all parts, unless a test owns them.
    _mapping: Option<RingMapping>,
}

// SAFETY: a ring is a set of pointers to memory that belongs to the process, not to a thread; one value at a time uses
// them for its side of the ring.
unsafe impl<T: Send> Send for RingParts<T> {}

impl<T: Copy> RingParts<T> {
    /// # Safety
    /// While the ring, which keeps `mapping`, lives, all pointers must be valid and aligned, `entries` for `size`
    /// entries, a power of two. Only one value may use each side, and only the two sides may use the memory.
    pub(super) unsafe fn new(
        producer: NonNull<AtomicU32>,
        consumer: NonNull<AtomicU32>,
        flags: Option<NonNull<AtomicU32>>,
        entries: NonNull<T>,
        size: u32,
        mapping: Option<RingMapping>,
    ) -> Self {
        debug_assert!(size.is_power_of_two());
        Self { producer, consumer, flags, entries, size, _mapping: mapping }
    }

    pub(super) fn producer(&self) -> &AtomicU32 {
        // SAFETY: valid as long as the ring is used, see `new`; both sides access it as an atomic only.
        unsafe { self.producer.as_ref() }
    }

    pub(super) fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// Reports whether the kernel has asked for a wake-up (`XDP_RING_NEED_WAKEUP`).
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: as in `producer`.
        self.flags.is_some_and(|flags| ordering::hint(unsafe { flags.as_ref() }) & libc::XDP_RING_NEED_WAKEUP != 0)
    }

    pub(super) fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the mask keeps it below `size`, and there are that many entries.
        unsafe { self.entries.as_ptr().add((index & (self.size - 1)) as usize) }
    }
}
