//! A guest's transmit queue in the split format: chains in, used elements out.

use super::SplitRing;
use crate::config::{QueueConfig, Returns};
use crate::device::budget::Budget;
use crate::device::chain::Access;
use crate::device::keep::Kept;
use crate::device::taken::TakenChain;
use crate::device::transmit::{Intake, TransmitRing, is_enough, push_usual, record};
use crate::error::{Fatal, SetupError};
use crate::exchange::Instead;
use crate::memory::{DirtyLog, Memory};
use packet::Burst;
use std::cell::Cell;
use std::sync::Arc;

/// The split ring of a transmit queue.
pub(in crate::device) struct SplitTransmit<L> {
    ring: SplitRing<L>,
    /// Head of the last chain taken; with IN_ORDER it stands for all before it.
    last: Cell<u16>,
}

impl<L: DirtyLog> SplitTransmit<L> {
    pub(in crate::device) fn new(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        Ok(SplitTransmit { ring: SplitRing::new(memory, config, log)?, last: Cell::new(0) })
    }
}

impl<L: DirtyLog> TransmitRing for SplitTransmit<L> {
    type Ring = SplitRing<L>;

    fn ring(&self) -> &SplitRing<L> {
        &self.ring
    }

    fn has_work(&self) -> bool {
        // An index that jumped is work too: receiving reports it.
        !matches!(self.ring.available(1), Ok(0))
    }

    #[inline(always)]
    fn take<'q>(&'q self, burst: &mut Burst<'_, 'q>, kept: Option<&'q Kept>, intake: &Intake) -> Result<usize, Fatal> {
        let ring = &self.ring;
        let wanted = (burst.room() as u16).min(ring.common.areas.size);
        let mut count = ring.available(wanted)?.min(wanted);
        let budget = Budget::new();
        let avail = ring.next_avail.get();
        let mut taken = 0;
        while taken < count {
            let run = ring.run(avail.wrapping_add(taken), count - taken);
            let usual = SplitRing::<L>::usual(Access::Read);
            let before = taken;
            taken = push_usual(self, burst, run, usual, taken.into(), kept) as u16;
            if usize::from(taken - before) == run.len() {
                continue;
            }
            let head = ring.head(avail.wrapping_add(taken))?;
            let place = kept.map(|_| taken.into());
            let unusual = intake.push_unusual(ring, burst, head.index, head.descriptor, place, &budget)?;
            let Some(chain) = unusual else { break };
            if is_enough(burst, &budget) && taken + 1 < count {
                intake.count_cut_short();
                count = taken + 1;
            }
            record(self, taken.into(), chain, kept);
            taken += 1;
        }
        ring.next_avail.set(avail.wrapping_add(taken));
        if let Some(kept) = kept {
            kept.mark(burst);
        } else {
            ring.next_used.set(ring.next_used.get().wrapping_add(taken));
        }
        Ok(taken.into())
    }

    #[inline(always)]
    fn record(&self, place: usize, chain: TakenChain) {
        let ring = &self.ring;
        if ring.common.returns == Returns::AnyOrder {
            ring.put_used_at(ring.next_used.get().wrapping_add(place as u16), chain.id, 0, Instead::OWN);
        }
        self.last.set(chain.id);
    }

    #[inline(always)]
    fn recycle(&self, kept: Option<&Kept>) {
        let ring = &self.ring;
        if let Some(kept) = kept {
            let mut next = ring.next_used.get();
            kept.give_back(|chain, instead| {
                ring.put_used_at(next, chain.id, 0, instead);
                next = next.wrapping_add(chain.slots);
            });
            ring.next_used.set(next);
        } else if ring.common.returns == Returns::InOrder && ring.next_used.get() != ring.published.get() {
            // One element, where the batch starts, stands for the whole batch (virtio 1.2 §2.7.9).
            ring.put_used_at(ring.published.get(), self.last.get(), 0, Instead::OWN);
        }
        ring.publish_used();
    }
}
