//! Which buffers of a group are the function's own.

use std::cell::Cell;

/// A set of buffers' numbers. It changes as buffers are exchanged, and tells a device that returns a buffer twice.
#[derive(Debug)]
pub(super) struct Owned {
    count: u16,
    /// A bit for each buffer of the group.
    words: Box<[Cell<u64>]>,
}

impl Owned {
    /// Returns the set of these of `count` buffers.
    pub(super) fn new(own: &[u16], count: u16) -> Owned {
        let owned = Owned { count, words: (0..count.div_ceil(64)).map(|_| Cell::new(0)).collect() };
        own.iter().for_each(|&number| owned.flip(number));
        owned
    }

    /// Puts `new` in the place of `old`, which is in the set. Returns `None`, and changes nothing, if `new` is in the set as well,
    /// or does not exist.
    #[inline]
    pub(super) fn replace(&self, old: u16, new: u16) -> Option<()> {
        if new >= self.count || self.contains(new) {
            return None;
        }
        self.flip(old);
        self.flip(new);
        Some(())
    }

    /// Returns all numbers in the set.
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
    fn a_buffer_is_taken_for_another_once() {
        let owned = Owned::new(&[3, 64, 99], 100);
        let numbers = || owned.numbers().collect::<Vec<_>>();
        assert_eq!(numbers(), [3, 64, 99]);
        assert_eq!([owned.replace(3, 64), owned.replace(3, 100), owned.replace(3, 3)], [None; 3]);
        assert_eq!((numbers(), owned.replace(64, 0), numbers()), (vec![3, 64, 99], Some(()), vec![0, 3, 99]));
        assert_eq!(owned.replace(99, 64), Some(()));
        assert_eq!(numbers(), [0, 3, 64]);
    }
}
