//! Chains that stay out when the burst that they came in ends: a frame is sent from where it lies in the guest's memory,
//! and its chain goes back to the guest when whoever sends it is done.

use super::lend;
use crate::frame::MAX_BURST;
use std::cell::Cell;

/// What a transmit queue knows of the chains that it has.
pub(super) struct Kept {
    lender: u64,
    /// Id and slots of every chain of the present burst.
    taken: [Cell<(u16, u16)>; MAX_BURST],
    count: Cell<usize>,
    /// Slots of the chain with this id while it is kept, else zero.
    slots: Box<[Cell<u16>]>,
    out: Cell<u16>,
    /// Kept chains that came back and are not returned yet, with their slots: no more than the ring has slots, as a chain
    /// that was not returned can't be offered again.
    back: Box<[Cell<(u16, u16)>]>,
    back_count: Cell<usize>,
}

impl Kept {
    /// For a queue of `size` descriptors.
    pub(super) fn new(size: u16) -> Kept {
        Kept {
            lender: lend::lender(),
            taken: [const { Cell::new((0, 0)) }; MAX_BURST],
            count: Cell::new(0),
            slots: (0..size).map(|_| Cell::new(0)).collect(),
            out: Cell::new(0),
            back: (0..size).map(|_| Cell::new((0, 0))).collect(),
            back_count: Cell::new(0),
        }
    }

    /// Names the queue on the frames whose chains can be kept.
    #[inline(always)]
    pub(super) fn lender(&self) -> u64 {
        self.lender
    }

    /// Notes the chain at `place` of the burst.
    #[inline(always)]
    pub(super) fn take(&self, place: usize, id: u16, slots: u16) {
        self.taken[place].set((id, slots));
        self.count.set(place + 1);
    }

    /// Chains that are kept at present.
    #[inline(always)]
    pub(super) fn out(&self) -> u16 {
        self.out.get()
    }

    /// Keeps the chains of the burst at these places. One whose id is kept already goes back at once: a guest that has
    /// two chains of one id can't tell them apart, and neither can we.
    #[inline(always)]
    pub(super) fn keep(&self, mut places: u32) {
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let (id, slots) = self.taken[place].get();
            if let Some(kept) = self.slots.get(usize::from(id)).filter(|kept| kept.get() == 0) {
                kept.set(slots);
                self.out.set(self.out.get() + 1);
                self.taken[place].set((id, 0));
            }
        }
    }

    /// A kept chain is not needed any more. It goes back with the next burst. One that is not kept is left alone.
    #[inline(always)]
    pub(super) fn release(&self, id: u16) {
        let Some(kept) = self.slots.get(usize::from(id)).filter(|kept| kept.get() != 0) else { return };
        let count = self.back_count.get();
        if let Some(back) = self.back.get(count) {
            back.set((id, kept.take()));
            self.back_count.set(count + 1);
        }
    }

    /// Returns what is not kept, with the slots that it takes.
    #[inline(always)]
    pub(super) fn give_back(&self, mut put: impl FnMut(u16, u16)) {
        let back = &self.back[..self.back_count.take()];
        for chain in back {
            let (id, slots) = chain.get();
            put(id, slots);
        }
        self.out.set(self.out.get() - back.len() as u16);
        for chain in &self.taken[..self.count.take()] {
            let (id, slots) = chain.get();
            if slots != 0 {
                put(id, slots);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SIZE: u16 = 8;

    #[derive(Clone, Debug)]
    enum Step {
        /// A burst with chains of these ids, those of these places of which are kept.
        Burst(Vec<u16>, u32),
        /// These ids are released, whether they are kept or not, and however often.
        Release(Vec<u16>),
        GiveBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Ids of a packed ring are the guest's to choose.
        let ids = || prop::collection::vec(0..SIZE + 2, 0..usize::from(SIZE));
        prop_oneof![
            (ids(), any::<u32>()).prop_map(|(ids, places)| Step::Burst(ids, places)),
            ids().prop_map(Step::Release),
            Just(Step::GiveBack),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 500 }, failure_persistence: None, ..Default::default() })]

        /// Every chain goes back once, and no sooner than whoever keeps it lets go of it.
        #[test]
        fn chains_go_back_once(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 15 } else { 60 })) {
            let kept = Kept::new(SIZE);
            // Chains by their slots, which are made to tell them apart, as a ring has no more than its size.
            let (mut number, mut held, mut due, mut seen) = (0, HashMap::new(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Burst(ids, places) => {
                        kept.give_back(|id, slots| seen.push((id, slots)));
                        let room = usize::from(SIZE) - held.len();
                        for (place, &id) in ids.iter().take(room).enumerate() {
                            number += 1;
                            kept.take(place, id, number);
                            let keeps = places >> place & 1 == 1 && id < SIZE && !held.contains_key(&id);
                            if keeps { held.insert(id, number); } else { due.push((id, number)) };
                        }
                        kept.keep(places & ((1u32 << ids.len().min(room)) - 1));
                        kept.give_back(|id, slots| seen.push((id, slots)));
                    }
                    Step::Release(ids) => ids.into_iter().for_each(|id| {
                        kept.release(id);
                        due.extend(held.remove(&id).map(|number| (id, number)));
                    }),
                    Step::GiveBack => kept.give_back(|id, slots| seen.push((id, slots))),
                }
                let waiting = kept.back_count.get();
                prop_assert_eq!(usize::from(kept.out()), held.len() + waiting);
            }
            for id in 0..SIZE {
                kept.release(id);
                due.extend(held.remove(&id).map(|number| (id, number)));
            }
            kept.give_back(|id, slots| seen.push((id, slots)));
            seen.sort_unstable();
            due.sort_unstable();
            prop_assert_eq!((seen, kept.out()), (due, 0));
        }
    }
}
