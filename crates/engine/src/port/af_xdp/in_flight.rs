//! Memory of a guest that the kernel has: loans, and chains that the guest sends.

/// Addresses that the kernel has, in the order in which it got them, each with an id. They mostly come back in that order, in copy mode
/// always. Not a map, as two may be the same.
pub(super) struct InFlight {
    /// A power of two of them: from `ends.first` to `ends.next`, those that the kernel has. The others have the free ids.
    places: Box<[Place]>,
    ends: Ends,
}

#[derive(Clone, Copy)]
struct Place {
    address: u64,
    id: u16,
}

/// They count up forever.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    next: u32,
}

/// A walk over the addresses, in locals: after each write to memory that others share, a field has to be read again.
pub(super) struct Walk<'a> {
    places: &'a mut [Place],
    ends: Ends,
    kept: &'a mut Ends,
}

impl InFlight {
    /// Returns an empty list with room for `most` addresses, a power of two, whose ids are below that.
    pub(super) fn new(most: u16) -> InFlight {
        assert!(most.is_power_of_two(), "{most} is not the size of a ring");
        let places = (0..most).map(|id| Place { address: 0, id }).collect();
        InFlight { places, ends: Ends { first: 0, next: 0 } }
    }

    /// Begins a walk, which [`Walk::end`] ends.
    #[inline(always)]
    pub(super) fn walk(&mut self) -> Walk<'_> {
        Walk { places: &mut self.places, ends: self.ends, kept: &mut self.ends }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.ends.next.wrapping_sub(self.ends.first) as usize
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// See [`Walk::free_id`].
    #[inline(always)]
    pub(super) fn free_id(&mut self) -> Option<u16> {
        self.walk().free_id()
    }

    /// See [`Walk::push`].
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64) {
        let mut walk = self.walk();
        walk.push(address);
        walk.end();
    }

    /// Finds and removes an address.
    #[inline(always)]
    pub(super) fn take(&mut self, address: u64) -> Option<u16> {
        let mut walk = self.walk();
        let id = walk.find(address)?;
        walk.pop();
        walk.end();
        Some(id)
    }

    /// Removes all addresses.
    pub(super) fn clear(&mut self) {
        self.ends.first = self.ends.next;
    }
}

impl Walk<'_> {
    #[inline(always)]
    fn place(&mut self, at: u32) -> &mut Place {
        let mask = self.places.len() - 1;
        &mut self.places[at as usize & mask]
    }

    /// Returns the id that [`Walk::push`] gives next, if there is room.
    #[inline(always)]
    pub(super) fn free_id(&mut self) -> Option<u16> {
        let len = self.ends.next.wrapping_sub(self.ends.first) as usize;
        (len < self.places.len()).then(|| self.place(self.ends.next).id)
    }

    /// Adds an address that the kernel gets, for which there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64) {
        self.place(self.ends.next).address = address;
        self.ends.next = self.ends.next.wrapping_add(1);
    }

    /// Returns the id of the first address, if it is this one.
    #[inline(always)]
    pub(super) fn first_is(&mut self, address: u64) -> Option<u16> {
        let Ends { first, next } = self.ends;
        let place = *self.place(first);
        (place.address == address && first != next).then_some(place.id)
    }

    /// Returns the id of an address that the kernel returned, the oldest if there are several, which is the first one now.
    #[inline(always)]
    pub(super) fn find(&mut self, address: u64) -> Option<u16> {
        self.first_is(address).or_else(|| bring_forward(self.places, self.ends, address))
    }

    /// Removes the address that [`Walk::find`] found.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.ends.first = self.ends.first.wrapping_add(1);
    }

    /// Ends the walk: what was pushed and popped counts.
    #[inline(always)]
    pub(super) fn end(self) {
        *self.kept = self.ends;
    }
}

/// Makes the oldest place with this address the first, and returns its id.
#[cold]
fn bring_forward(places: &mut [Place], Ends { first, next }: Ends, address: u64) -> Option<u16> {
    let mask = places.len() - 1;
    let at = |n: u32| first.wrapping_add(n) as usize & mask;
    let found = (0..next.wrapping_sub(first)).find(|&n| places[at(n)].address == address)?;
    (0..found).rev().for_each(|n| places.swap(at(n), at(n + 1)));
    Some(places[at(0)].id)
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
            let mut outside = InFlight { ends: Ends { first: start, next: start }, ..InFlight::new(16) };
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
                prop_assert_eq!(outside.walk().find(address), id);
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
