//! The memory ordering of every ring: how one side publishes, how the other consumes, and how either goes to sleep
//! without missing anything. All rings use these functions and no other ordering; the models in `model.rs` check
//! exactly these.

mod word;

pub use word::Word;

use crate::sync::{Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// Makes everything written before visible to a thread that [`consume`]s this word: an index, or a packed descriptor.
#[inline(always)]
pub fn publish<W: Word>(word: &W, value: W::Value) {
    word.store(value, Ordering::Release);
}

/// Reads a word that the other side [`publish`]es: everything written before it is then visible.
#[inline(always)]
pub fn consume<W: Word>(word: &W) -> W::Value {
    word.load(Ordering::Acquire)
}

/// Writes a word of a ring that a later [`publish`] makes visible.
#[inline(always)]
pub fn put<W: Word>(word: &W, value: W::Value) {
    word.store(value, Ordering::Relaxed);
}

/// Writes a word of a ring, as [`put`], unless it has this value already: an unchanged line stays in the cache of the other
/// side. Returns whether it wrote.
#[inline(always)]
pub fn put_changed<W: Word<Value: PartialEq>>(word: &W, value: W::Value) -> bool {
    let changed = get(word) != value;
    if changed {
        put(word, value);
    }
    changed
}

/// Reads a word of a ring that an earlier [`consume`] made visible, or that needs no order.
#[inline(always)]
pub fn get<W: Word>(word: &W) -> W::Value {
    word.load(Ordering::Relaxed)
}

/// Fences between a [`publish`] and reading whether the other side wants to be notified, and between asking to be
/// notified and checking again for work. Each side stores, fences and loads: without the fence both loads may miss both
/// stores, and both sides sleep (virtio 1.2 §2.7.13.4.1, §2.8.21.3.1).
#[inline(always)]
pub fn before_asking() {
    fence(Ordering::SeqCst);
}

/// Changes words that belong together and are read by [`whole`]. Only one thread may change them at a time.
#[inline]
pub fn alter<W: Word<Value = u64>>(sequence: &W, change: impl FnOnce()) {
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // A reader that sees any changed word also sees that the change began.
    fence(Ordering::Release);
    change();
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Reads words that belong together; returns `None` if they were [`alter`]ed meanwhile. Never blocks, so a signal
/// handler may call it.
#[inline]
pub fn whole<W: Word<Value = u64>, T>(sequence: &W, read: impl FnOnce() -> T) -> Option<T> {
    let before = sequence.load(Ordering::Acquire);
    let words = read();
    fence(Ordering::Acquire);
    (before.is_multiple_of(2) && sequence.load(Ordering::Relaxed) == before).then_some(words)
}

/// Reports whether an index that moved from `old` to `new` passed the requested event at `event` (virtio 1.2 §2.7.7.1).
#[inline(always)]
pub fn crosses(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(all(test, not(loom)))]
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
