//! The consuming side of a ring: of the receive and the completion ring.

use std::iter::FusedIterator;

use super::ordering;
use super::parts::RingParts;

/// The consuming side of a ring.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: RingParts<T>,
    /// Index of the next entry to read.
    next: u32,
    /// The producer's index at the last read.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    /// Takes over this side at its present index.
    pub(crate) fn new(ring: RingParts<T>) -> Self {
        let next = ordering::own(ring.consumer());
        let produced = ordering::observe(ring.producer());
        Self { ring, next, produced }
    }

    /// Returns the number of waiting entries. Reads the producer's index only if fewer than `wanted` are known.
    #[inline]
    pub(crate) fn waiting(&mut self, wanted: u32) -> u32 {
        if self.known() < wanted {
            self.produced = ordering::observe(self.ring.producer());
        }
        self.known()
    }

    #[inline]
    fn known(&self) -> u32 {
        self.produced.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Returns up to `max` entries.
    #[inline]
    pub(crate) fn burst(&mut self, max: u32) -> RingBurst<'_, T> {
        let len = self.waiting(max).min(max);
        RingBurst { end: self.next.wrapping_add(len), consumer: self }
    }

    /// Passes up to `max` entries to `take`, until it refuses one: that one stays, as do those behind it. The kernel may reuse the slots
    /// of the others when this returns. Returns their number.
    #[inline(always)]
    pub(crate) fn take_while(&mut self, max: u32, mut take: impl FnMut(T) -> bool) -> u32 {
        let len = self.waiting(max).min(max);
        let (first, mut taken) = (self.next, 0);
        while taken < len {
            // SAFETY: as in `RingBurst::next`.
            let entry = unsafe { self.ring.entry(first.wrapping_add(taken)).read() };
            if !take(entry) {
                break;
            }
            taken += 1;
        }
        if taken > 0 {
            self.next = first.wrapping_add(taken);
            ordering::publish(self.ring.consumer(), self.next);
        }
        taken
    }
}

/// A burst of entries being taken from a ring.
///
/// When it is dropped, the entries read are taken, and the kernel may reuse their slots. The memory that they describe
/// is not affected. The other entries stay for the next burst.
#[derive(Debug)]
pub struct RingBurst<'a, T: Copy> {
    consumer: &'a mut Consumer<T>,
    end: u32,
}

impl<T: Copy> Iterator for RingBurst<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let next = self.consumer.next;
        if next == self.end {
            return None;
        }
        // SAFETY: the entry lies in the ring and was published, as it is before `end`; the producer leaves it alone
        // until this side's index is published.
        let entry = unsafe { self.consumer.ring.entry(next).read() };
        self.consumer.next = next.wrapping_add(1);
        Some(entry)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.end.wrapping_sub(self.consumer.next) as usize;
        (len, Some(len))
    }
}

impl<T: Copy> ExactSizeIterator for RingBurst<'_, T> {}
impl<T: Copy> FusedIterator for RingBurst<'_, T> {}

impl<T: Copy> Drop for RingBurst<'_, T> {
    #[inline]
    fn drop(&mut self) {
        ordering::publish(self.consumer.ring.consumer(), self.consumer.next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeRing;
    use super::super::{Descriptor, Producer};
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::convert::identity;
    use std::thread;

    #[test]
    fn unread_entries_stay() {
        let memory = FakeRing::<u64>::new(4, 7);
        let (mut producer, mut consumer) = (Producer::new(memory.side()), Consumer::new(memory.side()));
        producer.push(0..4, 4, identity);
        let mut burst = consumer.burst(4);
        assert_eq!((burst.next(), burst.len()), (Some(0), 3));
        drop(burst);
        assert_eq!(producer.room(4), 1);
        assert_eq!(consumer.burst(9).collect::<Vec<_>>(), [1, 2, 3]);
        // A forgotten burst returns its slots only when the next burst is dropped.
        producer.push(4..8, 4, identity);
        let mut burst = consumer.burst(2);
        burst.next();
        std::mem::forget(burst);
        assert_eq!(producer.room(4), 0);
        assert_eq!(consumer.burst(2).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(producer.room(4), 3);
    }

    #[test]
    fn entries_cross_threads_whole() {
        let (count, size) = if cfg!(miri) { (200, 8) } else { (200_000, 64) };
        let memory = FakeRing::<Descriptor>::new(size, u32::MAX - 20);
        let (mut producer, mut consumer) = (Producer::new(memory.side()), Consumer::new(memory.side()));
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut source = (0..count).map(|n| Descriptor { address: n, len: n as u32, options: !n as u32 });
                let mut pushed = 0;
                while pushed < count {
                    match producer.push(&mut source, 5, identity) {
                        0 => thread::yield_now(),
                        count => pushed += count as u64,
                    }
                }
            });
            let mut expected = 0;
            while expected < count {
                let before = expected;
                for Descriptor { address, len, options } in consumer.burst(7) {
                    assert_eq!((address, len, options), (expected, expected as u32, !expected as u32));
                    expected += 1;
                }
                if expected == before {
                    thread::yield_now();
                }
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..<_>::default() })]
        /// For bursts of any size, a ring is a bounded queue.
        #[test]
        fn a_ring_is_a_bounded_queue(
            size in (0..6u32).prop_map(|bits| 1 << bits),
            start in prop_oneof![Just(0), u32::MAX - 50..=u32::MAX],
            steps in prop::collection::vec((0..40usize, 0..40u32, 0..40usize, any::<bool>()), 0..30),
        ) {
            let memory = FakeRing::<u64>::new(size, start);
            let (mut producer, mut consumer) = (Producer::new(memory.side()), Consumer::new(memory.side()));
            let (mut model, mut count) = (VecDeque::new(), 0u64);
            for (push, burst, take, refuses) in steps {
                let pushed = producer.push(count..count + push as u64, push as u32, identity);
                prop_assert_eq!(pushed, push.min(size as usize - model.len()));
                model.extend(count..count + pushed as u64);
                count += pushed as u64;
                if refuses {
                    let mut got = Vec::new();
                    let taken = consumer.take_while(burst, |entry| {
                        got.push(entry);
                        got.len() <= take
                    });
                    prop_assert_eq!(taken as usize, take.min(burst as usize).min(model.len()));
                    prop_assert!(got.iter().eq(model.iter().take(got.len())));
                    model.drain(..taken as usize);
                } else {
                    let burst = consumer.burst(burst);
                    prop_assert!(burst.len() <= model.len());
                    for entry in burst.take(take) {
                        prop_assert_eq!(Some(entry), model.pop_front());
                    }
                }
                prop_assert_eq!(producer.room(u32::MAX) as usize, size as usize - model.len());
                prop_assert_eq!(consumer.waiting(u32::MAX) as usize, model.len());
            }
        }
    }
}
