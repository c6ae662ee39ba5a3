//! The memory-ordering core of every ring: how one side publishes, how the other consumes, and how either of them
//! goes to sleep without missing anything. All rings use these functions and no ordering of their own; the models in
//! `tests/loom.rs` check exactly these.

use crate::sync::{Word, fence};
use std::sync::atomic::Ordering;

/// Makes everything written before visible to whoever [`consume`]s this word: an index, or a packed descriptor.
#[inline(always)]
pub fn publish<W: Word>(word: &W, value: W::Value) {
    word.store(value, Ordering::Release);
}

/// Reads a word that the other side [`publish`]es: what was written before it can be read after.
#[inline(always)]
pub fn consume<W: Word>(word: &W) -> W::Value {
    word.load(Ordering::Acquire)
}

/// Writes a word of a ring that becomes visible by a later [`publish`].
#[inline(always)]
pub fn put<W: Word>(word: &W, value: W::Value) {
    word.store(value, Ordering::Relaxed);
}

/// Reads a word of a ring that an earlier [`consume`] made visible, or that needs no order.
#[inline(always)]
pub fn get<W: Word>(word: &W) -> W::Value {
    word.load(Ordering::Relaxed)
}

/// Between a [`publish`] and reading whether the other side wants to be notified; and between asking to be notified
/// and looking once more for work. Each side stores, fences and loads: without the fence both loads may miss both
/// stores, and both sides sleep (virtio 1.2 §2.7.13.4.1, §2.8.21.3.1).
#[inline(always)]
pub fn before_asking() {
    fence(Ordering::SeqCst);
}

/// Changes words that belong together and that others read by [`whole`]. One thread at a time may.
#[inline]
pub fn alter<W: Word<Value = u64>>(sequence: &W, change: impl FnOnce()) {
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // Who sees a word of the change sees that it began.
    fence(Ordering::Release);
    change();
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Reads words that belong together; `None` if they were [`alter`]ed meanwhile. Waits for nobody, so that a signal handler
/// may do it.
#[inline]
pub fn whole<W: Word<Value = u64>, T>(sequence: &W, read: impl FnOnce() -> T) -> Option<T> {
    let before = sequence.load(Ordering::Acquire);
    let words = read();
    fence(Ordering::Acquire);
    (before.is_multiple_of(2) && sequence.load(Ordering::Relaxed) == before).then_some(words)
}

/// The other side asked for an event at `event`, and the index moved from `old` to `new` (virtio 1.2 §2.7.7.1).
#[inline(always)]
pub fn crosses(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::crosses;

    #[test]
    fn an_event_is_crossed_once() {
        assert!(crosses(5, 6, 5));
        assert!(!crosses(5, 5, 4), "the event index itself has to be passed");
        assert!(!crosses(5, 7, 6));
        assert!(crosses(u16::MAX, 2, u16::MAX - 3));
        assert!(!crosses(3, 3, 3));
    }
}
