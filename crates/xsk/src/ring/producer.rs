//! The producing side of a ring: of the fill and the transmit ring.

use super::ordering;
use super::parts::RingParts;

/// The producing side of a ring.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: RingParts<T>,
    /// Index of the next entry to write; equal to the published index between calls.
    next: u32,
    /// The consumer's index at the last read.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    /// Takes over this side at its present index.
    pub(crate) fn new(ring: RingParts<T>) -> Self {
        let next = ordering::own(ring.producer());
        let consumed = ordering::observe(ring.consumer());
        Self { ring, next, consumed }
    }

    /// Returns the number of free entries. Reads the consumer's index only if fewer than `wanted` are known.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let known = self.known_room();
        if known >= wanted {
            return known;
        }
        self.consumed = ordering::observe(self.ring.consumer());
        self.known_room()
    }

    #[inline]
    fn known_room(&self) -> u32 {
        // Saturating: a corrupt index must not turn into room that does not exist.
        self.ring.size.saturating_sub(self.next.wrapping_sub(self.consumed))
    }

    /// Adds as many entries as fit, as `encode` returns them, takes no more from the iterator, and returns their number. The iterator has
    /// one call, so that its method can become part of the loop.
    #[inline(always)]
    pub(crate) fn push(&mut self, entries: impl IntoIterator<Item = T>, wanted: u32, encode: impl Fn(T) -> T) -> usize {
        let (room, mut pushed, mut entries) = (self.room(wanted), 0, entries.into_iter());
        while pushed < room
            && let Some(entry) = entries.next()
        {
            // SAFETY: the entry lies in the ring, and the consumer is done with it: it is one of `room`.
            unsafe { self.ring.entry(self.next.wrapping_add(pushed)).write(encode(entry)) };
            pushed += 1;
        }
        if pushed > 0 {
            self.next = self.next.wrapping_add(pushed);
            ordering::publish(self.ring.producer(), self.next);
        }
        pushed as usize
    }

    /// Returns the most entries that an iterator can add.
    #[inline(always)]
    pub(crate) fn most_of<I>(&self, entries: &impl Iterator<Item = I>) -> u32 {
        let most = entries.size_hint().1.map_or(u32::MAX, |most| most.try_into().unwrap_or(u32::MAX));
        most.min(self.ring.size)
    }

    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Consumer;
    use super::super::fake::FakeRing;
    use super::*;
    use std::convert::identity;
    use std::sync::atomic::Ordering;

    #[test]
    fn it_fills_up_and_the_indices_wrap() {
        let memory = FakeRing::<u64>::new(8, u32::MAX - 3);
        let (mut producer, mut consumer) = (Producer::new(memory.side()), Consumer::new(memory.side()));
        assert_eq!(producer.room(1), 8);
        assert_eq!(producer.push(0..20, 20, identity), 8);
        assert_eq!((producer.room(1), producer.push(0..20, 20, identity)), (0, 0));
        assert_eq!(consumer.burst(3).collect::<Vec<_>>(), [0, 1, 2]);
        let mut source = 8..20;
        assert_eq!(producer.push(&mut source, 20, identity), 3);
        assert_eq!(source, 11..20, "what does not fit stays with the caller");
        assert_eq!(consumer.burst(u32::MAX).collect::<Vec<_>>(), (3..11).collect::<Vec<_>>());
        assert_eq!(consumer.burst(1).len(), 0);
    }

    #[test]
    fn the_kernel_asks_to_be_woken() {
        let memory = FakeRing::<u64>::new(2, 0);
        let producer = Producer::new(memory.side());
        assert!(!producer.needs_wakeup());
        memory.flags.store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }
}
