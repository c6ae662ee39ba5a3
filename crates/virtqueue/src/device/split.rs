//! Split rings, device side (virtio 1.2 §2.7).

use super::DropCounts;
use super::budget::{BYTES, Budget, USUAL_FRAME};
use super::chain::{self, Access, Chain};
use super::deliver::Ring;
use super::keep::Kept;
use super::posted::{Posted, PostedQueue};
use crate::areas::Areas;
use crate::config::{Format, QueueConfig, features};
use crate::copy::{prefetch, prefetch_write};
use crate::error::{Fatal, SetupError};
use crate::frame::{Burst, MIN_FRAME, Segment};
use crate::layout::{AVAIL_NO_INTERRUPT, F_INDIRECT, F_NEXT, F_WRITE, NET_HEADER, Tail, USED_NO_NOTIFY};
use crate::memory::Memory;
use crate::ordering::{consume, crosses, get, publish, put};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The available side: the chains offered by the guest, from `next` up to `seen`.
struct Avail {
    next: Cell<u16>,
    /// The guest's index at the last read. Its cache line belongs to the guest; it is read no more than needed.
    seen: Cell<u16>,
}

/// The used side, and the ring state common to both queues of a pair.
pub(super) struct Used {
    pub(super) areas: Areas,
    mask: u16,
    event_idx: bool,
    in_order: bool,
    avail: Avail,
    /// Next index of the used ring; those before `published` are published.
    next: Cell<u16>,
    published: Cell<u16>,
    /// Index at the last query whether the guest wants a notification.
    notified: Cell<u16>,
}

impl Used {
    fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Used, SetupError> {
        let areas = Areas::new(memory, config)?;
        let (format, size) = (Format::Split, config.size);
        u16::try_from(config.base).map_err(|_| SetupError::Base { base: config.base, format, size })?;
        // Trust the ring rather than the frontend's base: we may have been killed between taking and returning buffers,
        // and DPDK's server mode sends a base of zero for a running ring. Chains taken but not returned are taken
        // again.
        let next = get(areas.used_idx());
        Ok(Used {
            areas,
            mask: config.size - 1,
            event_idx: config.negotiated.has(features::EVENT_IDX),
            in_order: config.negotiated.has(features::IN_ORDER),
            avail: Avail { next: Cell::new(next), seen: Cell::new(next) },
            next: Cell::new(next),
            published: Cell::new(next),
            notified: Cell::new(next),
        })
    }

    /// Returns the number of available chains, reading the guest's index only if fewer than `wanted` are known.
    /// Together with the chains taken and not yet published as used, they never exceed the ring: a chain offered again
    /// before it was published is an error.
    #[inline(always)]
    fn available(&self, wanted: u16) -> Result<u16, Fatal> {
        let next = self.avail.next.get();
        let known = self.avail.seen.get().wrapping_sub(next);
        if known >= wanted {
            return Ok(known);
        }
        let seen = consume(self.areas.avail_idx());
        let moved = seen.wrapping_sub(self.published.get());
        let taken = next.wrapping_sub(self.published.get());
        if moved > self.areas.size || moved < taken {
            return Err(Fatal::IndexJump { moved, size: self.areas.size });
        }
        self.avail.seen.set(seen);
        Ok(moved - taken)
    }

    /// Returns the head of the chain at available index `at`, with its first descriptor.
    #[inline(always)]
    fn head(&self, at: u16) -> Result<(u16, u64, Tail), Fatal> {
        let head = get(self.areas.avail_entry(at & self.mask));
        if head >= self.areas.size {
            return Err(Fatal::BadHead { head, size: self.areas.size });
        }
        let (addr, tail) = self.areas.descriptor(head);
        Ok((head, addr, tail))
    }

    #[inline(always)]
    fn put(&self, at: u16, head: u16, len: u32) {
        // Mostly equal to the previous lap's entry; a line that does not change stays in the guest's cache.
        let (id_at, len_at) = self.areas.used_element(at & self.mask);
        if get(id_at) != u32::from(head) {
            put(id_at, head.into());
        }
        if get(len_at) != len {
            put(len_at, len);
        }
    }

    /// Publishes the used ring up to `next`, if that has moved.
    #[inline(always)]
    fn publish(&self) {
        let next = self.next.get();
        if next != self.published.get() {
            publish(self.areas.used_idx(), next);
            self.published.set(next);
        }
    }

    pub(super) fn set_kicks(&self, wanted: bool) {
        if self.event_idx {
            // To disable kicks, leave the event index as it is: the guest passes it once in 65536 buffers.
            if wanted {
                put(self.areas.avail_event(), self.avail.next.get());
            }
        } else {
            put(self.areas.used_flags(), if wanted { 0 } else { USED_NO_NOTIFY });
        }
    }

    #[inline(always)]
    pub(super) fn wants_notification(&self) -> bool {
        let (new, old) = (self.published.get(), self.notified.get());
        if new == old {
            return false;
        }
        self.notified.set(new);
        if self.event_idx {
            crosses(get(self.areas.used_event()), new, old)
        } else {
            get(self.areas.avail_flags()) & AVAIL_NO_INTERRUPT == 0
        }
    }

    pub(super) fn base(&self) -> u32 {
        self.published.get().into()
    }
}

/// A guest's transmit queue.
pub struct Transmitq {
    pub(super) used: Used,
    /// Head of the last chain taken; with IN_ORDER it stands for all before it.
    last: Cell<u16>,
    /// Chains kept by a sender, if keeping is allowed.
    kept: Option<Kept>,
    chain: RefCell<Chain>,
    dropped: Cell<DropCounts>,
    cut_short: Cell<u64>,
}

// SAFETY: the pointers in it point into memory that `used.areas` keeps mapped; any thread may use them.
unsafe impl Send for Transmitq {}

impl Transmitq {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Ok(Transmitq {
            used: Used::new(memory, config)?,
            last: Cell::new(0),
            kept: None,
            chain: RefCell::new(Chain::new()),
            dropped: Cell::default(),
            cut_short: Cell::new(0),
        })
    }

    pub(super) fn allow_keeping(&mut self) {
        if !self.used.in_order {
            self.kept = Some(Kept::new(self.used.areas.size));
        }
    }

    pub(super) fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    pub(super) fn dropped(&self) -> DropCounts {
        self.dropped.get()
    }

    pub(super) fn cut_short(&self) -> u64 {
        self.cut_short.get()
    }

    pub(super) fn has_work(&self) -> bool {
        // An index that jumped is work too: receiving reports it.
        !matches!(self.used.available(1), Ok(0))
    }

    #[inline(always)]
    pub(super) fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        match &self.kept {
            None => self.take(burst, None),
            kept => self.take(burst, kept.as_ref()),
        }
    }

    /// Receives a burst. Compiled once with and once without keeping, to avoid a check for every frame.
    #[inline(always)]
    fn take<'q>(&'q self, burst: &mut Burst<'_, 'q>, kept: Option<&Kept>) -> Result<usize, Fatal> {
        let used = &self.used;
        let wanted = (burst.room() as u16).min(used.areas.size);
        let mut count = used.available(wanted)?.min(wanted);
        let budget = Budget::new();
        let (avail, put_at) = (used.avail.next.get(), used.next.get());
        let memory = &*used.areas.memory;
        let mut taken = 0;
        while taken < count {
            let (head, addr, tail) = used.head(avail.wrapping_add(taken))?;
            let simple = tail.split_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == 0;
            let len = tail.len().wrapping_sub(NET_HEADER);
            if simple
                && (MIN_FRAME..=USUAL_FRAME).contains(&len)
                && let Some(ptr) = memory.translate(addr, tail.len().into())
            {
                // SAFETY: the buffer was just checked to be mapped, by a memory that this queue holds.
                let frame = unsafe { Segment::new(ptr.as_ptr().add(NET_HEADER as usize), len) };
                prefetch(frame.as_ptr());
                match kept {
                    None => burst.push(frame),
                    Some(_) => burst.push_chain(frame, taken.into(), head),
                }
            } else {
                let place = kept.map(|_| (taken.into(), head));
                if !self.receive_unusual(burst, (addr, tail), place, &budget)? {
                    break;
                }
                if (budget.is_spent() || burst.bytes() >= BYTES) && taken + 1 < count {
                    self.cut_short.set(self.cut_short.get() + 1);
                    count = taken + 1;
                }
            }
            if let Some(kept) = kept {
                kept.take(taken.into(), head, 1);
            } else if !used.in_order {
                used.put(put_at.wrapping_add(taken), head, 0);
            }
            self.last.set(head);
            taken += 1;
        }
        used.avail.next.set(avail.wrapping_add(taken));
        if let Some(kept) = kept {
            burst.set_lender(kept.lender());
        } else {
            used.next.set(put_at.wrapping_add(taken));
        }
        Ok(taken.into())
    }

    /// Takes a long frame, a chain of several buffers, or one that must be dropped; returns false if the burst has no
    /// room for it. A chain that can be kept has a `place` in the burst, and an id.
    #[cold]
    fn receive_unusual<'q>(
        &'q self,
        burst: &mut Burst<'_, 'q>,
        (addr, tail): (u64, Tail),
        place: Option<(usize, u16)>,
        budget: &Budget,
    ) -> Result<bool, Fatal> {
        let simple = tail.split_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == 0;
        if simple && chain::push_long(&self.used.areas.memory, burst, (addr, tail.len()), place) {
            return Ok(true);
        }
        let chain = &mut *self.chain.borrow_mut();
        chain.split(&self.used.areas.memory, &self.used.areas, Access::Read, addr, tail)?;
        budget.spend(chain.descriptors);
        Ok(chain.push_frame(burst, &self.dropped))
    }

    #[inline(always)]
    pub(super) fn recycle(&self) {
        let used = &self.used;
        if let Some(kept) = &self.kept {
            let mut next = used.next.get();
            kept.give_back(|head, _| {
                used.put(next, head, 0);
                next = next.wrapping_add(1);
            });
            used.next.set(next);
        } else if used.in_order && used.next.get() != used.published.get() {
            // One element, where the batch starts, stands for the whole batch (virtio 1.2 §2.7.9).
            used.put(used.published.get(), self.last.get(), 0);
        }
        used.publish();
    }
}

/// The available buffers of a guest's receive queue.
pub struct Available {
    used: Used,
    chain: RefCell<Chain>,
}

// SAFETY: as for `Transmitq`.
unsafe impl Send for Available {}

impl Available {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Ok(Available { used: Used::new(memory, config)?, chain: RefCell::new(Chain::new()) })
    }

    #[cold]
    fn post_chain(&self, posted: &PostedQueue, budget: &Budget, head: u16, addr: u64, tail: Tail) -> Result<(), Fatal> {
        let chain = &mut *self.chain.borrow_mut();
        chain.split(&self.used.areas.memory, &self.used.areas, Access::Write, addr, tail)?;
        budget.spend(chain.descriptors);
        posted.push_chain(&chain.buffers, chain.good, head, 1);
        Ok(())
    }
}

impl Ring for Available {
    type Used = Used;

    fn used(&self) -> &Used {
        &self.used
    }

    #[inline(always)]
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, fetch: bool, budget: &Budget) -> Result<(), Fatal> {
        let used = &self.used;
        let memory = &*used.areas.memory;
        let missing = wanted.saturating_sub(posted.len()).min(used.areas.size.into()) as u16;
        if missing == 0 || budget.is_spent() {
            return Ok(());
        }
        let mut count = used.available(missing)?.min(missing);
        let start = used.avail.next.get();
        let mut taken = 0;
        while taken < count && posted.has_room() {
            let (head, addr, tail) = used.head(start.wrapping_add(taken))?;
            let simple = tail.split_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == F_WRITE;
            if simple && let Some(ptr) = memory.translate(addr, tail.len().into()) {
                if fetch {
                    // The frame's first line. The header, if on another line, hardly ever changes.
                    prefetch_write(ptr.as_ptr().wrapping_add(NET_HEADER as usize));
                }
                posted.push(Posted { ptr: ptr.as_ptr(), len: tail.len(), id: head, slots: 1 });
            } else {
                self.post_chain(posted, budget, head, addr, tail)?;
                if budget.is_spent() {
                    count = taken + 1;
                }
            }
            taken += 1;
        }
        used.avail.next.set(start.wrapping_add(taken));
        Ok(())
    }

    #[inline(always)]
    fn put_used(&self, last: Posted, written: u32) {
        let next = self.used.next.get();
        self.used.put(next, last.id, written);
        self.used.next.set(next.wrapping_add(1));
    }

    #[inline(always)]
    fn publish(&self) {
        self.used.publish();
    }
}
