//! Memory orderings of the rings (Documentation of net/xdp/xsk_queue.h, "the structure of the shared state of the
//! rings"): everything written before an index was published is visible to the side that observes it. The producer's
//! index passes entries to the consumer, and the consumer's index returns free slots.

use std::sync::atomic::{AtomicU32, Ordering};

/// Reads this side's own index, at the start.
pub(super) fn own(index: &AtomicU32) -> u32 {
    index.load(Ordering::Relaxed)
}

/// Reads the other side's index: its accesses before it published this index have happened.
#[inline]
pub(super) fn observe(index: &AtomicU32) -> u32 {
    index.load(Ordering::Acquire)
}

/// Publishes this side's index: its accesses to entries before this have happened for the other side.
#[inline]
pub(super) fn publish(index: &AtomicU32, value: u32) {
    index.store(value, Ordering::Release);
}

/// Reads a flag that orders nothing. The kernel has no fence either between setting the flag and its last look at the ring, so
/// a fence here would not make a single look sufficient: callers query again each round, or poll(2) before they sleep.
#[inline]
pub(super) fn hint(flags: &AtomicU32) -> u32 {
    flags.load(Ordering::Relaxed)
}
