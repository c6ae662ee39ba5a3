//! Memory of a guest that the kernel has: loans, and chains that the guest sends.

/// Addresses that the kernel has, in the order in which it got them, each with an id. They mostly come back in that order, in copy mode
/// always. Not a map, as two may be the same.
pub(super) struct InFlight {
    /// A power of two of them: from `first` to `next`, those that the kernel has. The others have the free ids.
    places: Box<[Place]>,
    /// They count up forever.
    first: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Place {
    address: u64,
    id: u16,
}

impl InFlight {
    /// Returns an empty list with room for `most` addresses, a power of two, whose ids are below that.
    pub(super) fn new(most: u16) -> InFlight {
        assert!(most.is_power_of_two(), "{most} is not the size of a ring");
        InFlight { places: (0..most).map(|id| Place { address: 0, id }).collect(), first: 0, next: 0 }
    }

    #[inline(always)]
    fn place(&mut self, at: u32) -> &mut Place {
        let mask = self.places.len() - 1;
        &mut self.places[at as usize & mask]
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.first
    }

    /// Returns the id that [`InFlight::push`] gives next, if there is room.
    #[inline(always)]
    pub(super) fn free_id(&mut self) -> Option<u16> {
        (self.len() < self.places.len()).then(|| self.place(self.next).id)
    }

    /// Adds an address that the kernel gets, for which there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64) {
        debug_assert!(self.len() < self.places.len());
        self.place(self.next).address = address;
        self.next = self.next.wrapping_add(1);
    }

    /// Returns the id of the first address, if it is this one.
    #[inline(always)]
    pub(super) fn first_is(&mut self, address: u64) -> Option<u16> {
        let first = *self.place(self.first);
        (first.address == address && !self.is_empty()).then_some(first.id)
    }

    /// Returns the id of an address that the kernel returned, the oldest if there are several, which is the first one now.
    #[inline(always)]
    pub(super) fn find(&mut self, address: u64) -> Option<u16> {
        self.first_is(address).or_else(|| self.bring_forward(address))
    }

    #[cold]
    fn bring_forward(&mut self, address: u64) -> Option<u16> {
        let (first, next) = (self.first, self.next);
        let mut before = *self.place(first);
        let at = (0..next.wrapping_sub(first)).find(|&n| self.place(first.wrapping_add(n)).address == address)?;
        for n in 1..=at {
            std::mem::swap(&mut before, self.place(first.wrapping_add(n)));
        }
        *self.place(first) = before;
        Some(before.id)
    }

    /// Removes the address that [`InFlight::find`] found.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        debug_assert!(!self.is_empty());
        self.first = self.first.wrapping_add(1);
    }

    /// Finds and removes an address.
    #[inline(always)]
    pub(super) fn take(&mut self, address: u64) -> Option<u16> {
        let id = self.find(address)?;
        self.pop();
        Some(id)
    }

    /// Removes all addresses.
    pub(super) fn clear(&mut self) {
        self.first = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any order, each address comes back once, the oldest of equal ones first, and no id stands for two.
        #[test]
        fn each_comes_back_once(
            addresses in prop::collection::vec(0..20u64, 0..200),
            order in prop::collection::vec(0..25u64, 0..200),
            start in prop_oneof![Just(0), u32::MAX - 50..=u32::MAX],
        ) {
            let mut outside = InFlight { first: start, next: start, ..InFlight::new(16) };
            let mut left: Vec<(u64, u16)> = Vec::new();
            let mut addresses = addresses.into_iter();
            for address in order {
                for address in addresses.by_ref().take(2) {
                    let id = outside.free_id();
                    prop_assert_eq!(id.is_some(), left.len() < 16);
                    let Some(id) = id else { break };
                    prop_assert!(id < 16 && left.iter().all(|entry| entry.1 != id));
                    outside.push(address);
                    left.push((address, id));
                }
                let at = left.iter().position(|entry| entry.0 == address);
                let id = at.map(|at| left[at].1);
                prop_assert_eq!(outside.find(address), id);
                if address % 3 > 0 {
                    prop_assert_eq!(outside.take(address), id);
                    at.map(|at| left.remove(at));
                } else if let Some(at) = at {
                    let found = left.remove(at);
                    left.insert(0, found);
                }
                prop_assert_eq!((outside.len(), outside.is_empty()), (left.len(), left.is_empty()));
            }
            outside.clear();
            prop_assert!(outside.is_empty());
        }
    }
}
