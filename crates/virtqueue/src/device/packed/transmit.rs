//! A guest's transmit queue in the packed format: chains in, used descriptors out.

use super::{PackedRing, Scan};
use crate::config::{QueueConfig, Returns};
use crate::device::budget::Budget;
use crate::device::chain::Access;
use crate::device::keep::Kept;
use crate::device::ring::DeviceRing;
use crate::device::taken::TakenChain;
use crate::device::transmit::{Intake, TransmitRing, is_enough, push_usual, record, returns_each};
use crate::error::{Fatal, SetupError};
use crate::exchange::Instead;
use crate::memory::{DirtyLog, Memory};
use packet::copy::{prefetch, prefetch_write};
use packet::{Burst, MAX_BURST};
use std::cell::Cell;
use std::sync::Arc;

/// The packed ring of a transmit queue.
pub(in crate::device) struct PackedTransmit<L> {
    ring: PackedRing<L>,
    /// Every chain taken; with IN_ORDER the last one stands for all of them when they are returned.
    taken: [Cell<TakenChain>; MAX_BURST],
    count: Cell<usize>,
}

impl<L: DirtyLog> PackedTransmit<L> {
    pub(in crate::device) fn new(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        Ok(PackedTransmit {
            ring: PackedRing::new(memory, config, log)?,
            taken: [const { Cell::new(TakenChain::NONE) }; MAX_BURST],
            count: Cell::new(0),
        })
    }

    /// Ends the call after a chain of this many slots, and counts if others wait.
    fn cut_short_after(&self, scan: Scan, slots: u16, intake: &Intake) -> Scan {
        if slots < scan.slots_left {
            let mut next = scan;
            next.pass(slots, self.ring.common.areas.size);
            if self.ring.available(&next).is_some() {
                intake.count_cut_short();
            }
        }
        Scan { slots_left: scan.slots_left.min(slots), ..scan }
    }
}

impl<L: DirtyLog> TransmitRing for PackedTransmit<L> {
    type Ring = PackedRing<L>;

    fn ring(&self) -> &PackedRing<L> {
        &self.ring
    }

    fn has_work(&self) -> bool {
        self.ring.available(&self.ring.scan()).is_some()
    }

    #[inline(always)]
    fn take<'q>(&'q self, burst: &mut Burst<'_, 'q>, kept: Option<&'q Kept>, intake: &Intake) -> Result<usize, Fatal> {
        let ring = &self.ring;
        let budget = Budget::new();
        let (mut scan, mut taken) = (ring.scan(), 0);
        while taken < MAX_BURST && burst.room() > 0 && scan.slots_left > 0 {
            let run = ring.run(&scan, burst.room().min(MAX_BURST - taken) as u16);
            let before = taken;
            taken = push_usual(self, burst, run, scan.usual(Access::Read), taken, kept);
            scan.pass((taken - before) as u16, ring.common.areas.size);
            if taken - before == run.len() {
                continue;
            }
            let Some(head) = ring.available(&scan) else { break };
            if returns_each(ring, kept) {
                PackedRing::<L>::fetch_to_return(ring.slot(&scan));
            }
            let place = kept.map(|_| taken);
            let unusual = intake.push_unusual(ring, burst, head.index, head.descriptor, place, &budget)?;
            let Some(chain) = unusual else { break };
            let goes_on = taken + 1 < MAX_BURST && burst.room() > 0;
            if goes_on && is_enough(burst, &budget) {
                scan = self.cut_short_after(scan, chain.slots, intake);
            }
            if chain.slots > scan.slots_left {
                return Err(Fatal::LongChain { size: ring.common.areas.size });
            }
            record(self, taken, chain, kept);
            taken += 1;
            scan.pass(chain.slots, ring.common.areas.size);
        }
        ring.next_avail.set(scan.at);
        let is_full = burst.room() == 0 || taken == MAX_BURST;
        match returns_each(ring, kept) {
            true if is_full => ring.fetch_ahead(&scan, taken as u16, prefetch_write),
            false if is_full => ring.fetch_ahead(&scan, taken as u16, prefetch),
            _ => {}
        }
        match kept {
            None => self.count.set(taken),
            Some(kept) => kept.mark(burst),
        }
        Ok(taken)
    }

    #[inline(always)]
    fn record(&self, place: usize, chain: TakenChain) {
        self.taken[place % MAX_BURST].set(chain);
    }

    #[inline(always)]
    fn recycle(&self, kept: Option<&Kept>) {
        let ring = &self.ring;
        let mut used = ring.used.get();
        let mut put = |chain, instead| ring.put_nothing(&mut used, chain, instead);
        if let Some(kept) = kept {
            kept.give_back(put);
        } else {
            let taken = &self.taken[..self.count.take()];
            if ring.common.returns == Returns::InOrder {
                // One descriptor, where the batch starts, stands for the whole batch (virtio 1.2 §2.8.9).
                if let Some(last) = taken.last() {
                    put(TakenChain { id: last.get().id, slots: ring.slots_taken() }, Instead::OWN);
                }
            } else {
                taken.iter().for_each(|chain| put(chain.get(), Instead::OWN));
            }
        }
        ring.used.set(used);
        ring.publish_used();
    }
}
