//! The buffers of a group that the function has in hand, rather than the device.

use std::cell::Cell;

/// A set of buffers' numbers. It detects a device that returns a buffer twice.
///
/// A buffer that was exchanged may come back by one queue before the other queue reports that it was given away: the
/// device may return any of its buffers in any chain.
#[derive(Debug)]
pub(super) struct InHand {
    count: u16,
    /// A bit for each buffer of the group.
    words: Box<[Cell<u64>]>,
}

impl InHand {
    /// Returns the set of these of `count` buffers.
    pub(super) fn new(own: &[u16], count: u16) -> InHand {
        let set = InHand { count, words: (0..count.div_ceil(64)).map(|_| Cell::new(0)).collect() };
        own.iter().for_each(|&number| set.flip(number));
        set
    }

    /// Takes out a buffer that the device gets.
    #[inline]
    pub(super) fn give(&self, number: u16) {
        debug_assert!(self.contains(number), "buffer {number} is not in hand");
        self.flip(number);
    }

    /// Adds a buffer that the device returns. Returns `None`, and changes nothing, if it is there already, or does not exist.
    #[inline]
    pub(super) fn take(&self, number: u16) -> Option<()> {
        if number >= self.count || self.contains(number) {
            return None;
        }
        self.flip(number);
        Some(())
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> {
        (0..self.count).filter(|number| self.contains(*number))
    }

    #[inline]
    fn contains(&self, number: u16) -> bool {
        self.words[usize::from(number / 64)].get() >> (number % 64) & 1 == 1
    }

    #[inline]
    fn flip(&self, number: u16) {
        let word = &self.words[usize::from(number / 64)];
        word.set(word.get() ^ 1 << (number % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_once() {
        let set = InHand::new(&[3, 64, 99], 100);
        let numbers = || set.numbers().collect::<Vec<_>>();
        assert_eq!(numbers(), [3, 64, 99]);
        assert_eq!([set.take(64), set.take(100), set.take(u16::MAX)], [None; 3]);
        set.give(3);
        assert_eq!((set.take(0), set.take(0), numbers()), (Some(()), None, vec![0, 64, 99]));
        assert_eq!((set.take(3), numbers()), (Some(()), vec![0, 3, 64, 99]));
    }
}
