//! The memory orderings of the rings; all that the two sides need (Documentation of net/xdp/xsk_queue.h, "the structure
//! of the shared state of the rings"): what was written before an index was published is seen by who observes it.
//! Entries go from the producer to the consumer with the producer's index, and free room comes back with the consumer's.

use std::sync::atomic::{AtomicU32, Ordering};

/// Reads this side's own index, at the start.
pub(super) fn own(index: &AtomicU32) -> u32 {
    index.load(Ordering::Relaxed)
}

/// Reads the other side's index: what it did before it moved it here has happened.
#[inline]
pub(super) fn observe(index: &AtomicU32) -> u32 {
    index.load(Ordering::Acquire)
}

/// Moves this side's index: what was done to entries before this has happened for the other side.
#[inline]
pub(super) fn publish(index: &AtomicU32, value: u32) {
    index.store(value, Ordering::Release);
}

/// Reads a flag that orders nothing. The kernel does not fence either between setting the flag and its last look at the
/// ring, so a fence here would not make a single look enough: users ask again in each round, or poll(2) before sleep.
#[inline]
pub(super) fn hint(flags: &AtomicU32) -> u32 {
    flags.load(Ordering::Relaxed)
}
