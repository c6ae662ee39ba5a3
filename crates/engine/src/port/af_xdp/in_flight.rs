//! Memory of a guest that the kernel has: loans, and chains that the guest sends.

use std::collections::VecDeque;

/// Items by the address that the kernel uses for them, in the order in which it got them. They mostly come back in that
/// order, in copy mode always. Not a map, as two may have the same address.
pub(super) struct InFlight<T>(VecDeque<(u64, T)>);

impl<T> InFlight<T> {
    /// Returns an empty list with room for `most` items.
    pub(super) fn new(most: usize) -> Self {
        InFlight(VecDeque::with_capacity(most))
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an item that the kernel gets.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64, thing: T) {
        self.0.push_back((address, thing));
    }

    /// Removes an item that the kernel returned; the oldest, if several have this address.
    #[inline(always)]
    pub(super) fn take(&mut self, address: u64) -> Option<T> {
        if self.0.front()?.0 == address {
            return self.0.pop_front().map(|entry| entry.1);
        }
        self.find(address)
    }

    #[cold]
    fn find(&mut self, address: u64) -> Option<T> {
        let at = self.0.iter().position(|entry| entry.0 == address)?;
        self.0.remove(at).map(|entry| entry.1)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.0.drain(..).map(|entry| entry.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any order, each item comes back once, and none is lost.
        #[test]
        fn each_comes_back_once(
            addresses in prop::collection::vec(0..20u64, 0..40),
            order in prop::collection::vec(0..25u64, 0..80),
        ) {
            let mut outside = InFlight::new(4);
            addresses.iter().enumerate().for_each(|(n, &address)| outside.push(address, n));
            let mut left: Vec<(u64, usize)> = addresses.iter().copied().zip(0..).collect();
            for address in order {
                let first = left.iter().position(|entry| entry.0 == address).map(|at| left.remove(at).1);
                prop_assert_eq!(outside.take(address), first);
                prop_assert_eq!((outside.len(), outside.is_empty()), (left.len(), left.is_empty()));
            }
            prop_assert!(outside.drain().eq(left.into_iter().map(|entry| entry.1)));
            prop_assert!(outside.is_empty());
        }
    }
}
