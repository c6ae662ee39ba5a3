//! A guest's receive queue in the packed format: posted buffers in, used descriptors out.

use super::{PackedRing, Used};
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
use packet::copy::prefetch_write;

impl<L: DirtyLog> PackedRing<L> {
    /// Adds a chain of several buffers, or one that nothing fits into; returns the slots that it takes.
    #[cold]
    fn post_chain(&self, posted: &PostedQueue, budget: &Budget, index: u16, first: Descriptor) -> Result<u16, Fatal> {
        let walked = self.walk(index, first, Access::Write)?;
        budget.spend(walked.descriptors);
        posted.push_chain(&walked);
        Ok(walked.chain.slots)
    }
}

impl<L: DirtyLog> ReceiveRing for PackedRing<L> {
    type Used = Used;

    #[inline(always)]
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, prefetch: Prefetch, budget: &Budget) -> Result<(), Fatal> {
        if posted.len() >= wanted || budget.is_spent() {
            return Ok(());
        }
        let size = self.common.areas.size;
        let (mut scan, mut vacant) = (self.scan(), posted.vacant(wanted));
        let before = scan.slots_left;
        while scan.slots_left > 0
            && let room @ 1.. = vacant.run().len() as u16
        {
            let run = self.run(&scan, room);
            let usual = post_usual(self, &mut vacant, run, scan.usual(Access::Write), prefetch);
            scan.pass(usual as u16, size);
            if usual == run.len() {
                continue;
            }
            let Some(head) = self.available(&scan) else { break };
            Self::fetch_to_return(self.slot(&scan));
            posted.push_to(&vacant);
            let slots = self.post_chain(posted, budget, head.index, head.descriptor)?;
            vacant = posted.vacant(if budget.is_spent() { 0 } else { wanted });
            if slots > scan.slots_left {
                return Err(Fatal::LongChain { size });
            }
            scan.pass(slots, size);
        }
        posted.push_to(&vacant);
        self.next_avail.set(scan.at);
        if posted.len() >= wanted {
            self.fetch_ahead(&scan, before - scan.slots_left, prefetch_write);
        }
        Ok(())
    }

    #[inline(always)]
    fn used(&self) -> Used {
        self.used.get()
    }

    #[inline(always)]
    fn set_used(&self, used: Used) {
        self.used.set(used);
    }

    #[inline(always)]
    fn put_used(&self, used: &mut Used, last: Posted, written: u32, instead: Instead) {
        self.put_written(used, TakenChain { id: last.id, slots: last.slots }, written, instead);
    }

    #[inline(always)]
    fn put_empty(&self, used: &mut Used, chain: TakenChain) {
        self.put_nothing(used, chain, Instead::OWN);
    }

    #[inline(always)]
    fn publish(&self) {
        self.publish_used();
    }
}
