//! Chains kept beyond the end of their burst: the frame is sent from where it lies in guest memory, and the chain returns to
//! the guest when the sender is done.

use super::held::Held;
use super::lend;
use super::taken::TakenChain;
use crate::config::Returns;
use crate::exchange::Instead;
use packet::{Burst, MAX_BURST, Offer};
use std::cell::Cell;

/// A transmit queue's record of the chains that it has taken.
pub(super) struct Kept {
    /// Zero if none can be kept.
    id: u64,
    /// None can be kept if chains return in order.
    order: Returns,
    /// The buffers given in exchange for those of the present burst, if the queue is in a group.
    offer: Option<Offer>,
    /// Chains of bursts that are held, if several threads share the queue.
    held: Option<Held>,
    /// Number of chains of the last burst whose buffers were exchanged, and whether most of them were.
    given: Cell<u32>,
    exchanges: Cell<bool>,
    /// Every chain of the present burst.
    taken: [Cell<TakenChain>; MAX_BURST],
    count: Cell<usize>,
    /// Slots of the chain with this id while it is kept, else zero.
    slots: Box<[Cell<u16>]>,
    /// Chains that are kept, or released and not yet returned.
    out: Cell<u16>,
    /// Released chains that are not yet returned to the guest. They never exceed the ring's slots, as the guest cannot
    /// offer a chain again before it is returned.
    back: Box<[Cell<TakenChain>]>,
    back_count: Cell<usize>,
}

impl Kept {
    /// Creates the record of a queue of `size` descriptors.
    pub(super) fn new(size: u16, order: Returns) -> Kept {
        Kept {
            id: 0,
            order,
            offer: None,
            held: None,
            given: Cell::new(0),
            exchanges: Cell::new(false),
            taken: [const { Cell::new(TakenChain::NONE) }; MAX_BURST],
            count: Cell::new(0),
            slots: (0..size).map(|_| Cell::new(0)).collect(),
            out: Cell::new(0),
            back: (0..size).map(|_| Cell::new(TakenChain::NONE)).collect(),
            back_count: Cell::new(0),
        }
    }

    /// Returns the number of the queue on frames whose chains can be kept; zero if there are none.
    #[inline(always)]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Allows keeping chains, unless they return in order.
    pub(super) fn allow(&mut self) {
        if self.order == Returns::AnyOrder {
            self.id = lend::queue_id();
        }
    }

    /// Lets bursts be held, or no longer: none is.
    pub(super) fn set_holding(&mut self, holds: bool) {
        self.held = holds.then(|| Held::new(self.slots.len() as u16));
    }

    /// Reports whether chains are recorded only so that their bursts are held.
    pub(super) fn only_holds(&self) -> bool {
        self.id == 0 && self.offer.is_none()
    }

    /// Offers the buffers of chains for others.
    pub(super) fn set_offer(&mut self, offer: Offer) {
        self.offer = Some(offer);
    }

    /// Tells a burst that the chains of its frames are recorded here.
    #[inline(always)]
    pub(super) fn mark<'q>(&'q self, burst: &mut Burst<'_, 'q>) {
        burst.set_queue(self.id);
        if let Some(offer) = &self.offer {
            burst.set_offer(offer);
        }
    }

    /// Records the chain at `place` of the burst.
    #[inline(always)]
    pub(super) fn take(&self, place: usize, chain: TakenChain) {
        self.taken[place].set(chain);
        self.count.set(place + 1);
    }

    /// Returns the number of chains kept at present.
    #[inline(always)]
    pub(super) fn out(&self) -> u16 {
        self.out.get()
    }

    /// Keeps the chains at these places of the burst. One whose id is already kept returns at once: neither the guest
    /// nor we could tell two chains of the same id apart.
    #[inline(always)]
    pub(super) fn keep(&self, mut places: u32) {
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let chain = self.taken[place].get();
            if let Some(kept) = self.slots.get(usize::from(chain.id)).filter(|kept| kept.get() == 0) {
                kept.set(chain.slots);
                self.out.set(self.out.get() + 1);
                self.taken[place].set(TakenChain { slots: 0, ..chain });
            }
        }
    }

    /// Releases a kept chain, which returns to the guest with the next burst. Ignores an id that is not kept.
    #[inline(always)]
    pub(super) fn release(&self, id: u16) {
        let Some(kept) = self.slots.get(usize::from(id)).filter(|kept| kept.get() != 0) else { return };
        self.push_back(TakenChain { id, slots: kept.take() });
    }

    /// Has a chain that was not kept return with the next burst.
    #[inline(always)]
    fn push_released(&self, chain: TakenChain) {
        self.push_back(chain);
        self.out.set(self.out.get() + 1);
    }

    #[inline(always)]
    fn push_back(&self, chain: TakenChain) {
        let count = self.back_count.get();
        if let Some(back) = self.back.get(count) {
            back.set(chain);
            self.back_count.set(count + 1);
        }
    }

    /// Reports whether every chain that was taken is kept: none is exchanged or held, and those of the last burst have gone back.
    #[inline(always)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.id != 0
            && self.offer.is_none()
            && self.held.is_none()
            && self.count.get() == 0
            && self.back_count.get() == 0
    }

    /// Keeps a chain that is in no burst. Returns false if its id is already kept. The caller counts: [`Kept::began`].
    #[inline(always)]
    pub(super) fn begin(&self, chain: TakenChain) -> bool {
        let Some(kept) = self.slots.get(usize::from(chain.id)).filter(|kept| kept.get() == 0) else { return false };
        kept.set(chain.slots);
        true
    }

    /// Counts chains that [`Kept::begin`] kept.
    #[inline(always)]
    pub(super) fn began(&self, chains: u16) {
        self.out.set(self.out.get() + chains);
    }

    /// Releases a kept chain, which its caller returns to the guest at once. The caller counts: [`Kept::ended`].
    #[inline(always)]
    pub(super) fn end(&self, id: u16) -> Option<TakenChain> {
        let kept = self.slots.get(usize::from(id)).filter(|kept| kept.get() != 0)?;
        Some(TakenChain { id, slots: kept.take() })
    }

    /// Counts chains that [`Kept::end`] released.
    #[inline(always)]
    pub(super) fn ended(&self, chains: u16) {
        self.out.set(self.out.get() - chains);
    }

    /// Holds the chains of the present burst, and appends their places to `places`.
    #[inline]
    pub(super) fn hold(&self, places: &mut Vec<u16>) {
        let Some(held) = &self.held else { return };
        for chain in &self.taken[..self.count.take()] {
            let chain = chain.get();
            if chain.slots == 0 {
                continue;
            }
            match held.hold(chain) {
                Some(place) => places.push(place),
                None => self.push_released(chain),
            }
        }
    }

    /// Releases the chains at these places, which return to the guest with the next burst.
    #[inline]
    pub(super) fn release_held(&self, places: &[u16]) {
        let Some(held) = &self.held else { return };
        for &place in places {
            held.give_back(place, self.order, |chain| self.push_released(chain));
        }
    }

    /// Returns the number of chains of the last burst that went back with other buffers.
    #[inline(always)]
    pub(super) fn given(&self) -> u32 {
        self.given.get()
    }

    /// Reports whether most chains of the next burst are likely to be returned one by one.
    #[inline(always)]
    pub(super) fn returns_each(&self) -> bool {
        self.order == Returns::AnyOrder || self.exchanges.get()
    }

    /// Passes every chain that is not kept to `put`, and the buffer that comes back. In order, one call may stand for several chains:
    /// with the slots of all, and the id and buffer of the last.
    #[inline(always)]
    pub(super) fn give_back(&self, mut put: impl FnMut(TakenChain, Instead)) {
        let taken = &self.taken[..self.count.take()];
        let places = self.offer.as_ref().map_or(0, Offer::take_places);
        self.given.set(places.count_ones());
        let instead = |place: usize| match &self.offer {
            Some(offer) if places >> place & 1 == 1 => Instead::of(offer.given(place)),
            _ => Instead::OWN,
        };
        if self.order == Returns::InOrder {
            return self.give_back_in_order(taken, places, instead, put);
        }
        self.put_back(&mut put);
        for (place, chain) in taken.iter().enumerate() {
            let chain = chain.get();
            if chain.slots != 0 {
                put(chain, instead(place));
            }
        }
    }

    /// Passes the chains that were released to `put`.
    #[inline(always)]
    fn put_back(&self, put: &mut impl FnMut(TakenChain, Instead)) {
        let back = &self.back[..self.back_count.take()];
        for chain in back {
            put(chain.get(), Instead::OWN);
        }
        self.out.set(self.out.get() - back.len() as u16);
    }

    /// The same in order. By itself, so that neither way makes the other's loop slower.
    #[inline(never)]
    fn give_back_in_order(
        &self,
        taken: &[Cell<TakenChain>],
        places: u32,
        instead: impl Fn(usize) -> Instead,
        mut put: impl FnMut(TakenChain, Instead),
    ) {
        self.put_back(&mut put);
        let (mut left, mut first) = (places, 0);
        while first < taken.len() {
            // Up to the next place whose buffer was exchanged, or to the end.
            let last = (left.trailing_zeros() as usize).min(taken.len() - 1);
            left &= left.wrapping_sub(1);
            let slots = taken[first..=last].iter().map(|chain| chain.get().slots).sum();
            put(TakenChain { slots, ..taken[last].get() }, instead(last));
            first = last + 1;
        }
        if !taken.is_empty() {
            self.exchanges.set(2 * places.count_ones() as usize > taken.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SIZE: u16 = 8;

    #[derive(Clone, Debug)]
    enum Step {
        /// A burst with chains of these ids; the bit mask tells which places are kept.
        Burst(Vec<u16>, u32),
        /// Releases of these ids, kept or not, possibly repeated.
        Release(Vec<u16>),
        GiveBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        // The guest chooses the ids of a packed ring.
        let ids = || prop::collection::vec(0..SIZE + 2, 0..usize::from(SIZE));
        prop_oneof![
            (ids(), any::<u32>()).prop_map(|(ids, places)| Step::Burst(ids, places)),
            ids().prop_map(Step::Release),
            Just(Step::GiveBack),
        ]
    }

    #[test]
    fn in_order_one_entry_stands_for_chains_up_to_the_next_given_buffer() {
        let mut kept = Kept::new(SIZE, Returns::InOrder);
        kept.set_offer(Offer::new(1, 2, 3, 0));
        assert_eq!(kept.id(), 0, "none can be kept");
        let put = |given: &[(u8, u16)]| {
            (0..5).for_each(|place| kept.take(place.into(), TakenChain { id: 10 + place, slots: 2 }));
            given.iter().for_each(|&(place, buffer)| kept.offer.as_ref().unwrap().give(place, buffer));
            let mut put = Vec::new();
            kept.give_back(|chain, instead| put.push((chain.id, chain.slots, instead.buffer())));
            put
        };
        assert_eq!(put(&[]), [(14, 10, None)]);
        assert_eq!(put(&[(0, 7), (3, 8)]), [(10, 2, Some(7)), (13, 6, Some(8)), (14, 2, None)]);
        assert_eq!(put(&[(4, 7)]), [(14, 10, Some(7))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 500 }, failure_persistence: None, ..Default::default() })]

        /// Every chain is returned once, and not before the sender has released it.
        #[test]
        fn chains_go_back_once(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 15 } else { 60 })) {
            let kept = Kept::new(SIZE, Returns::AnyOrder);
            // Each chain has a distinct number of slots to identify it; the ring holds at most its size.
            let (mut number, mut held, mut due, mut seen) = (0, HashMap::new(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Burst(ids, places) => {
                        kept.give_back(|chain, _| seen.push((chain.id, chain.slots)));
                        let room = usize::from(SIZE) - held.len();
                        for (place, &id) in ids.iter().take(room).enumerate() {
                            number += 1;
                            kept.take(place, TakenChain { id, slots: number });
                            let keeps = places >> place & 1 == 1 && id < SIZE && !held.contains_key(&id);
                            if keeps { held.insert(id, number); } else { due.push((id, number)) };
                        }
                        kept.keep(places & ((1u32 << ids.len().min(room)) - 1));
                        kept.give_back(|chain, _| seen.push((chain.id, chain.slots)));
                    }
                    Step::Release(ids) => ids.into_iter().for_each(|id| {
                        kept.release(id);
                        due.extend(held.remove(&id).map(|number| (id, number)));
                    }),
                    Step::GiveBack => kept.give_back(|chain, _| seen.push((chain.id, chain.slots))),
                }
                let waiting = kept.back_count.get();
                prop_assert_eq!(usize::from(kept.out()), held.len() + waiting);
            }
            for id in 0..SIZE {
                kept.release(id);
                due.extend(held.remove(&id).map(|number| (id, number)));
            }
            kept.give_back(|chain, _| seen.push((chain.id, chain.slots)));
            seen.sort_unstable();
            due.sort_unstable();
            prop_assert_eq!((seen, kept.out()), (due, 0));
        }
    }
}
