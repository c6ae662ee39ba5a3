//! Split rings, device side (virtio 1.2 §2.7).

mod receive;
mod transmit;

pub(super) use transmit::SplitTransmit;

use super::chain::{Access, KIND, WalkedChain};
use super::ring::{Common, DeviceRing, Head, Usual};
use super::taken::TakenChain;
use crate::config::{Format, QueueConfig, features};
use crate::error::{Fatal, SetupError};
use crate::exchange::Instead;
use crate::layout::{AVAIL_NO_INTERRUPT, Descriptor, Tail, USED_NO_NOTIFY};
use crate::memory::{DirtyLog, Memory};
use crate::ordering::{consume, crosses, get};
use std::cell::{Cell, RefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

/// The device side of a split ring, of either direction.
pub(super) struct SplitRing<L> {
    common: Common<L>,
    mask: u16,
    event_idx: bool,
    /// Next index of the available ring.
    next_avail: Cell<u16>,
    /// The guest's available index at the last read. Its cache line belongs to the guest; it is read no more than needed.
    seen: Cell<u16>,
    /// Next index of the used ring; those before `published` are published.
    next_used: Cell<u16>,
    published: Cell<u16>,
    /// Used index at the last query whether the guest wants a notification.
    notified: Cell<u16>,
}

impl<L: DirtyLog> SplitRing<L> {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        let common = Common::new(memory, config, log)?;
        let (format, size) = (Format::Split, config.size);
        u16::try_from(config.base).map_err(|_| SetupError::Base { base: config.base, format, size })?;
        // Trust the ring rather than the frontend's base: we may have been killed between taking and returning buffers,
        // and DPDK's server mode sends a base of zero for a running ring. Chains taken but not returned are taken
        // again.
        let next = get(common.areas.used_idx());
        Ok(SplitRing {
            common,
            mask: config.size - 1,
            event_idx: config.negotiated.has(features::EVENT_IDX),
            next_avail: Cell::new(next),
            seen: Cell::new(next),
            next_used: Cell::new(next),
            published: Cell::new(next),
            notified: Cell::new(next),
        })
    }

    /// Returns the number of available chains, reading the guest's index only if fewer than `wanted` are known.
    /// Together with the chains taken and not yet published as used, they never exceed the ring: a chain offered again
    /// before it was published is an error.
    #[inline(always)]
    fn available(&self, wanted: u16) -> Result<u16, Fatal> {
        let next = self.next_avail.get();
        let known = self.seen.get().wrapping_sub(next);
        if known >= wanted {
            return Ok(known);
        }
        let seen = consume(self.common.areas.avail_idx());
        let moved = seen.wrapping_sub(self.published.get());
        let taken = next.wrapping_sub(self.published.get());
        if moved > self.common.areas.size || moved < taken {
            return Err(Fatal::IndexJump { moved, size: self.common.areas.size });
        }
        self.seen.set(seen);
        Ok(moved - taken)
    }

    /// Returns the head of the chain at available index `at`.
    #[inline(always)]
    fn head(&self, at: u16) -> Result<Head, Fatal> {
        let head = get(self.common.areas.avail_entry(at & self.mask));
        if head >= self.common.areas.size {
            return Err(Fatal::BadHead { head, size: self.common.areas.size });
        }
        Ok(Head { index: head, descriptor: self.common.areas.descriptor(head) })
    }

    /// Returns the entries of at most `count` available chains from available index `at` on, as far as they lie one after the other.
    #[inline(always)]
    fn run(&self, at: u16, count: u16) -> &[AtomicU16] {
        let start = at & self.mask;
        self.common.areas.avail_entries(start, count.min(self.common.areas.size - start))
    }

    /// Returns how the usual chains look.
    #[inline(always)]
    fn usual(access: Access) -> Usual {
        Usual { mask: Tail::split(0, KIND, 0), bits: Tail::split(0, access.single(), 0) }
    }

    /// Writes the used element at used index `at`. It mostly equals the previous lap's.
    #[inline(always)]
    fn put_used_at(&self, at: u16, head: u16, len: u32, instead: Instead) {
        let (id_at, len_at) = self.common.areas.used_element(at & self.mask);
        self.common.writer.put_changed(id_at, u32::from(instead.bits()) << 16 | u32::from(head));
        self.common.writer.put_changed(len_at, len);
    }

    /// Publishes the used ring up to `next_used`, if that has moved.
    #[inline(always)]
    fn publish_used(&self) {
        let next = self.next_used.get();
        if next != self.published.get() {
            self.common.writer.publish(self.common.areas.used_idx(), next);
            self.published.set(next);
        }
    }
}

/// Where a call stands in reading available chains: at this index of the available ring.
#[derive(Clone, Copy)]
pub(in crate::device) struct SplitAvailable {
    at: u16,
    usual: Usual,
}

impl<L: DirtyLog> DeviceRing for SplitRing<L> {
    type Log = L;
    type Available = SplitAvailable;

    #[inline(always)]
    fn read_available(&self, wanted: u16, access: Access) -> Result<(SplitAvailable, u16), Fatal> {
        let known = self.available(wanted)?;
        Ok((SplitAvailable { at: self.next_avail.get(), usual: Self::usual(access) }, known))
    }

    #[inline(always)]
    fn next_available(&self, available: &SplitAvailable) -> (&AtomicU16, Usual) {
        (self.common.areas.avail_entry(available.at & self.mask), available.usual)
    }

    #[inline(always)]
    fn has_available(&self, _: &SplitAvailable) -> bool {
        true
    }

    #[inline(always)]
    fn pass_available(&self, available: &mut SplitAvailable) {
        available.at = available.at.wrapping_add(1);
    }

    #[inline(always)]
    fn set_available(&self, available: SplitAvailable) {
        self.next_avail.set(available.at);
    }

    #[inline(always)]
    fn common(&self) -> &Common<L> {
        &self.common
    }

    /// Of the available ring: the index of a descriptor.
    type Entry = AtomicU16;

    #[inline(always)]
    fn read(&self, entry: &AtomicU16) -> Option<(Descriptor, u16)> {
        let index = get(entry);
        (index < self.common.areas.size).then(|| (self.common.areas.descriptor(index), index))
    }

    #[inline(always)]
    fn single(head: Head, access: Access) -> Option<TakenChain> {
        (head.descriptor.tail.split_flags() & KIND == access.single())
            .then_some(TakenChain { id: head.index, slots: 1 })
    }

    #[inline(always)]
    fn fetch_to_return(_: &AtomicU16) {}

    fn walk(&self, index: u16, first: Descriptor, access: Access) -> Result<RefMut<'_, WalkedChain>, Fatal> {
        let mut walked = self.common.walked.borrow_mut();
        walked.split(&self.common.areas, access, index, first)?;
        Ok(walked)
    }

    fn set_kicks(&self, wanted: bool) {
        if self.event_idx {
            // To disable kicks, leave the event index as it is: the guest passes it once in 65536 buffers.
            if wanted {
                self.common.writer.put(self.common.areas.avail_event(), self.next_avail.get());
            }
        } else {
            self.common.writer.put(self.common.areas.used_flags(), if wanted { 0 } else { USED_NO_NOTIFY });
        }
    }

    #[inline(always)]
    fn wants_notification(&self) -> bool {
        let (new, old) = (self.published.get(), self.notified.get());
        if new == old {
            return false;
        }
        self.notified.set(new);
        if self.event_idx {
            crosses(get(self.common.areas.used_event()), new, old)
        } else {
            get(self.common.areas.avail_flags()) & AVAIL_NO_INTERRUPT == 0
        }
    }

    fn base(&self) -> u32 {
        self.published.get().into()
    }
}
