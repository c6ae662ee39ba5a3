//! A ring over ordinary memory, of which the caller has both sides.

use super::parts::RingParts;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

pub(crate) struct FakeRing<T> {
    producer: AtomicU32,
    consumer: AtomicU32,
    pub(super) flags: AtomicU32,
    entries: Box<[UnsafeCell<T>]>,
}

// SAFETY: only rings use the entries, and those order their accesses.
unsafe impl<T: Send> Sync for FakeRing<T> {}

impl<T: Copy + Default> FakeRing<T> {
    /// Creates a ring of `size` entries whose indices start at `start`.
    pub(crate) fn new(size: u32, start: u32) -> Self {
        Self {
            producer: start.into(),
            consumer: start.into(),
            flags: 0.into(),
            entries: (0..size).map(|_| UnsafeCell::default()).collect(),
        }
    }

    /// Returns one side. The memory must outlive it, and each side may be used only once.
    pub(crate) fn side(&self) -> RingParts<T> {
        let entries = NonNull::from(&*self.entries).cast();
        let flags = Some(NonNull::from(&self.flags));
        // SAFETY: all of it is alive and aligned, and callers use a side at most once.
        unsafe {
            RingParts::new(
                NonNull::from(&self.producer),
                NonNull::from(&self.consumer),
                flags,
                entries,
                self.entries.len() as u32,
                None,
            )
        }
    }
}
