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
    /// Kept chains that came back and are not returned yet.
    back: Box<[Cell<u16>]>,
    back_count: Cell<usize>,
}

impl Kept {
    /// For a queue of `size` descriptors.
    pub(super) fn new(size: u16) -> Kept {
        let cells = || (0..size).map(|_| Cell::new(0)).collect();
        Kept {
            lender: lend::lender(),
            taken: [const { Cell::new((0, 0)) }; MAX_BURST],
            count: Cell::new(0),
            slots: cells(),
            out: Cell::new(0),
            back: cells(),
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
        if self.slots.get(usize::from(id)).is_some_and(|slots| slots.get() != 0)
            && self.back_count.get() < self.back.len()
        {
            self.back[self.back_count.get()].set(id);
            self.back_count.set(self.back_count.get() + 1);
        }
    }

    /// Returns what is not kept, with the slots that it takes.
    #[inline(always)]
    pub(super) fn give_back(&self, mut put: impl FnMut(u16, u16)) {
        for id in &self.back[..self.back_count.take()] {
            let slots = self.slots[usize::from(id.get())].take();
            if slots != 0 {
                put(id.get(), slots);
                self.out.set(self.out.get() - 1);
            }
        }
        for chain in &self.taken[..self.count.take()] {
            let (id, slots) = chain.get();
            if slots != 0 {
                put(id, slots);
            }
        }
    }
}
