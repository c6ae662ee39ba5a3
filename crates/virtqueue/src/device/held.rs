//! Chains of bursts that are held: other threads read their frames, and bursts come back in any order.

use super::taken::TakenChain;
use crate::config::Returns;
use std::cell::Cell;

/// A transmit queue's chains that are held, each at a place of its own. Places are known to this side alone: a guest may give
/// several chains of a packed ring one id.
pub(super) struct Held {
    places: Box<[Cell<Place>]>,
    /// Where a free place is sought first.
    next: Cell<usize>,
    /// The place of the chain that returns first, if they return in order.
    oldest: Cell<usize>,
}

#[derive(Clone, Copy)]
enum Place {
    Free,
    Taken(TakenChain),
    /// Given back, after a chain that was not.
    Waiting(TakenChain),
}

impl Held {
    /// Creates the record of a queue of `size` descriptors.
    pub(super) fn new(size: u16) -> Held {
        let places = (0..size).map(|_| Cell::new(Place::Free)).collect();
        Held { places, next: Cell::new(0), oldest: Cell::new(0) }
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.places.len() { 0 } else { place + 1 }
    }

    /// Holds a chain, and returns its place. `None` if all are taken: a ring has no more chains than descriptors.
    #[inline]
    pub(super) fn hold(&self, chain: TakenChain) -> Option<u16> {
        let mut place = self.next.get();
        // Chains that a stalled thread has are passed. In order there are none, as those after them wait.
        for _ in 0..self.places.len() {
            let next = self.after(place);
            if let Place::Free = self.places[place].get() {
                self.places[place].set(Place::Taken(chain));
                self.next.set(next);
                return Some(place as u16);
            }
            place = next;
        }
        None
    }

    /// Gives the chain at a place back. Passes each chain that can be returned to `put`, in order if `returns` demands it: one may
    /// stand for several then, with the slots of all.
    #[inline]
    pub(super) fn give_back(&self, place: u16, returns: Returns, put: impl FnOnce(TakenChain)) {
        let Some(cell) = self.places.get(usize::from(place)) else { return };
        let Place::Taken(chain) = cell.get() else { return };
        match returns {
            Returns::AnyOrder => {
                cell.set(Place::Free);
                put(chain);
            }
            Returns::InOrder => {
                cell.set(Place::Waiting(chain));
                if usize::from(place) == self.oldest.get() {
                    put(self.take_waiting(chain));
                }
            }
        }
    }

    /// Frees the places of `first`, which is the oldest, and of those that wait for it alone. Returns the last chain, with the slots of
    /// all (virtio 1.2 §2.7.9, §2.8.9).
    fn take_waiting(&self, first: TakenChain) -> TakenChain {
        let mut last = TakenChain { slots: 0, ..first };
        while let Place::Waiting(chain) = self.places[self.oldest.get()].get() {
            self.places[self.oldest.get()].set(Place::Free);
            self.oldest.set(self.after(self.oldest.get()));
            last = TakenChain { id: chain.id, slots: last.slots + chain.slots };
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u16 = 8;

    fn chain(number: u16) -> TakenChain {
        TakenChain { id: number, slots: 1 }
    }

    fn give_back(held: &Held, place: u16, returns: Returns) -> Vec<(u16, u16)> {
        let mut put = Vec::new();
        held.give_back(place, returns, |chain| put.push((chain.id, chain.slots)));
        put
    }

    #[test]
    fn in_order_chains_wait_for_those_before_them() {
        let held = Held::new(SIZE);
        // Twice round the ring.
        for lap in 0..4u16 {
            let at = |index: u16| (lap * 5 + index) % SIZE;
            let places: Vec<_> = (0..5).filter_map(|number| held.hold(chain(number))).collect();
            assert_eq!(places, (0..5).map(at).collect::<Vec<_>>());
            assert!(give_back(&held, at(2), Returns::InOrder).is_empty());
            assert_eq!(give_back(&held, at(0), Returns::InOrder), [(0, 1)]);
            assert!(give_back(&held, at(4), Returns::InOrder).is_empty());
            assert_eq!(give_back(&held, at(1), Returns::InOrder), [(2, 2)]);
            assert!(give_back(&held, at(1), Returns::InOrder).is_empty(), "once");
            assert_eq!(give_back(&held, at(3), Returns::InOrder), [(4, 2)]);
        }
    }

    #[test]
    fn a_full_record_holds_no_more() {
        let held = Held::new(2);
        assert_eq!([0, 1, 2].map(|number| held.hold(chain(number))), [Some(0), Some(1), None]);
        assert_eq!(give_back(&held, 1, Returns::AnyOrder), [(1, 1)]);
        assert_eq!(held.hold(chain(3)), Some(1), "it passes the place that is taken");
        assert!(give_back(&held, 2, Returns::AnyOrder).is_empty(), "there is no such place");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..Default::default() })]

        /// Every chain returns once; in order, none before an older one.
        #[test]
        fn chains_return_once(in_order: bool, steps in prop::collection::vec((any::<bool>(), 0..usize::from(SIZE)), 1..80)) {
            let returns = if in_order { Returns::InOrder } else { Returns::AnyOrder };
            let held = Held::new(SIZE);
            let (mut number, mut out, mut slots, mut came) = (0, Vec::new(), 0, Vec::new());
            let mut put = |chain: TakenChain| {
                slots += chain.slots;
                came.push(chain.id);
            };
            for (holds, which) in steps {
                if holds {
                    // As many are out as the ring has room for, with those that wait.
                    if let Some(place) = held.hold(chain(number)) {
                        out.push(place);
                        number += 1;
                    }
                } else if !out.is_empty() {
                    held.give_back(out.remove(which % out.len()), returns, &mut put);
                }
            }
            out.into_iter().for_each(|place| held.give_back(place, returns, &mut put));
            prop_assert_eq!(slots, number, "all came back");
            if in_order {
                prop_assert!(came.is_sorted(), "{:?}", came);
            } else {
                came.sort_unstable();
                prop_assert!(came.into_iter().eq(0..number));
            }
        }
    }
}
