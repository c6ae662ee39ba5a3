//! A guest's receive queue in the split format: posted buffers in, used elements out.

use super::SplitRing;
use crate::device::budget::Budget;
use crate::device::chain::Access;
use crate::device::posted::{Posted, PostedQueue};
use crate::device::receive::{Prefetch, ReceiveRing, post_usual};
use crate::device::ring::DeviceRing;
use crate::device::taken::TakenChain;
use crate::error::Fatal;
use crate::exchange::Instead;
use crate::layout::Descriptor;
use crate::memory::DirtyLog;

impl<L: DirtyLog> SplitRing<L> {
    #[cold]
    fn post_chain(&self, posted: &PostedQueue, budget: &Budget, index: u16, first: Descriptor) -> Result<(), Fatal> {
        let walked = self.walk(index, first, Access::Write)?;
        budget.spend(walked.descriptors);
        posted.push_chain(&walked);
        Ok(())
    }
}

impl<L: DirtyLog> ReceiveRing for SplitRing<L> {
    /// Next index of the used ring.
    type Used = u16;

    #[inline(always)]
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, prefetch: Prefetch, budget: &Budget) -> Result<(), Fatal> {
        let missing = wanted.saturating_sub(posted.len()).min(self.common.areas.size.into()) as u16;
        if missing == 0 || budget.is_spent() {
            return Ok(());
        }
        let count = self.available(missing)?.min(missing);
        let start = self.next_avail.get();
        let (mut taken, mut vacant) = (0, posted.vacant(u32::MAX));
        while taken < count
            && let room @ 1.. = vacant.run().len() as u16
        {
            let run = self.run(start.wrapping_add(taken), room.min(count - taken));
            let usual = post_usual(self, &mut vacant, run, Self::usual(Access::Write), prefetch);
            taken += usual as u16;
            if usual == run.len() {
                continue;
            }
            let head = self.head(start.wrapping_add(taken)).inspect_err(|_| posted.push_to(&vacant))?;
            posted.push_to(&vacant);
            self.post_chain(posted, budget, head.index, head.descriptor)?;
            vacant = posted.vacant(u32::MAX);
            taken += 1;
            if budget.is_spent() {
                break;
            }
        }
        posted.push_to(&vacant);
        self.next_avail.set(start.wrapping_add(taken));
        Ok(())
    }

    #[inline(always)]
    fn used(&self) -> u16 {
        self.next_used.get()
    }

    #[inline(always)]
    fn set_used(&self, used: u16) {
        self.next_used.set(used);
    }

    #[inline(always)]
    fn put_used(&self, used: &mut u16, last: Posted, written: u32, instead: Instead) {
        self.put_used_at(*used, last.id, written, instead);
        *used = used.wrapping_add(1);
    }

    #[inline(always)]
    fn put_empty(&self, used: &mut u16, chain: TakenChain) {
        self.put_used_at(*used, chain.id, 0, Instead::OWN);
        *used = used.wrapping_add(1);
    }

    #[inline(always)]
    fn publish(&self) {
        self.publish_used();
    }
}
