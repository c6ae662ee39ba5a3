//! Packed rings, device side (virtio 1.2 §2.8).

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
use crate::frame::{Burst, MAX_BURST, MIN_FRAME, Segment};
use crate::layout::{F_INDIRECT, F_NEXT, F_WRITE, NET_HEADER, Tail, event, packed_is_available, packed_used_bits};
use crate::memory::Memory;
use crate::ordering::{consume, crosses, get, publish, put};
use crate::position::Position;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The used side, and the ring state common to both queues of a pair.
pub(super) struct Used {
    pub(super) areas: Areas,
    in_order: bool,
    /// Next descriptor that the guest will make available.
    avail: Cell<Position>,
    /// Next descriptor to be written as used; those before `published` are published.
    next: Cell<Position>,
    published: Cell<Position>,
    /// First descriptor written since the last publish. It is written last: until then the guest sees none of them.
    first: Cell<Option<(u16, u64)>>,
    /// Position at the last query whether the guest wants a notification.
    notified: Cell<Position>,
}

impl Used {
    fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Used, SetupError> {
        let areas = Areas::new(memory, config)?;
        // Everything taken is returned before a queue stops, so both sides resume at the same position. If we were
        // killed in between, the used side is behind, and chains taken but not returned are taken again.
        let avail = Position::from_bits(config.base as u16);
        let used = Position::from_bits((config.base >> 16) as u16);
        // A frontend that only knows split rings sends no used half.
        let start = if config.base >> 16 == 0 { avail } else { used };
        if start.slot >= config.size {
            return Err(SetupError::Base { base: config.base, format: Format::Packed, size: config.size });
        }
        Ok(Used {
            areas,
            in_order: config.negotiated.has(features::IN_ORDER),
            avail: Cell::new(start),
            next: Cell::new(start),
            published: Cell::new(start),
            first: Cell::new(None),
            notified: Cell::new(start),
        })
    }

    /// Returns the descriptor at `at` if the guest made it available.
    #[inline(always)]
    fn available(&self, at: Position) -> Option<(u64, Tail)> {
        let tail = Tail(consume(self.areas.tail(at.slot)));
        packed_is_available(tail.packed_flags(), at.wrap).then(|| (get(self.areas.addr(at.slot)), tail))
    }

    /// Returns the number of slots that the guest may have made available: the whole ring except slots taken and not
    /// yet published as used. A slot offered again before it was published is left for a later call.
    #[inline(always)]
    fn room(&self) -> u16 {
        self.areas.size - self.published.get().distance(self.avail.get(), self.areas.size)
    }

    /// Writes a used descriptor for a buffer that took `slots`.
    #[inline(always)]
    fn put(&self, id: u16, slots: u16, len: u32, flags: u16) {
        let at = self.next.get();
        let tail = Tail::packed(len, id, flags | packed_used_bits(at.wrap)).0;
        if self.first.get().is_none() {
            self.first.set(Some((at.slot, tail)));
        } else {
            put(self.areas.tail(at.slot), tail);
        }
        self.next.set(at.advance(slots, self.areas.size));
    }

    #[inline(always)]
    fn publish(&self) {
        if let Some((slot, tail)) = self.first.take() {
            publish(self.areas.tail(slot), tail);
            self.published.set(self.next.get());
        }
    }

    pub(super) fn set_kicks(&self, wanted: bool) {
        let flags = if wanted { event::ENABLE } else { event::DISABLE };
        put(self.areas.device_event(), u32::from(flags) << 16);
    }

    #[inline(always)]
    pub(super) fn wants_notification(&self) -> bool {
        let (new, old) = (self.next.get(), self.notified.get());
        if new == old {
            return false;
        }
        self.notified.set(new);
        let asked = get(self.areas.driver_event());
        match (asked >> 16) as u16 & 3 {
            event::DISABLE => false,
            event::DESC => {
                let (size, event) = (self.areas.size, Position::from_bits(asked as u16));
                crosses(event.in_lap_of(new, size), new.slot, old.in_lap_of(new, size))
            }
            _ => true,
        }
    }

    pub(super) fn base(&self) -> u32 {
        let bits = u32::from(self.next.get().bits());
        bits | bits << 16
    }
}

/// A guest's transmit queue.
pub struct Transmitq {
    pub(super) used: Used,
    /// Id and slots of every chain taken; with IN_ORDER the last one stands for all of them when they are returned.
    taken: [Cell<(u16, u16)>; MAX_BURST],
    count: Cell<usize>,
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
            taken: [const { Cell::new((0, 0)) }; MAX_BURST],
            count: Cell::new(0),
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
        self.used.available(self.used.avail.get()).is_some()
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
        let size = used.areas.size;
        let memory = &*used.areas.memory;
        let mut at = used.avail.get();
        // A guest that writes flags while we read could otherwise send us round the ring again.
        let mut slots_left = used.room();
        let budget = Budget::new();
        let mut taken = 0;
        while taken < MAX_BURST && burst.room() > 0 && slots_left > 0 {
            let Some((addr, tail)) = used.available(at) else { break };
            let simple = tail.packed_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == 0;
            let len = tail.len().wrapping_sub(NET_HEADER);
            let (id, slots) = if simple
                && (MIN_FRAME..=USUAL_FRAME).contains(&len)
                && let Some(ptr) = memory.translate(addr, tail.len().into())
            {
                // SAFETY: the buffer was just checked to be mapped, by a memory that this queue holds.
                let frame = unsafe { Segment::new(ptr.as_ptr().add(NET_HEADER as usize), len) };
                prefetch(frame.as_ptr());
                match kept {
                    None => burst.push(frame),
                    Some(_) => burst.push_chain(frame, taken, tail.packed_id()),
                }
                (tail.packed_id(), 1)
            } else {
                let place = kept.map(|_| (taken, tail.packed_id()));
                let Some(chain) = self.receive_unusual(burst, at.slot, (addr, tail), place, &budget)? else { break };
                let goes_on = taken + 1 < MAX_BURST && burst.room() > 0;
                if goes_on && (budget.is_spent() || burst.bytes() >= BYTES) {
                    slots_left = self.cut_short_after(at, chain.1, slots_left);
                }
                chain
            };
            if slots > slots_left {
                return Err(Fatal::LongChain { size });
            }
            slots_left -= slots;
            match kept {
                None => self.taken[taken].set((id, slots)),
                Some(kept) => kept.take(taken, id, slots),
            }
            at = at.advance(slots, size);
            taken += 1;
        }
        used.avail.set(at);
        match kept {
            None => self.count.set(taken),
            Some(kept) => burst.set_lender(kept.lender()),
        }
        Ok(taken)
    }

    /// Takes a long frame, a chain of several buffers, or one that must be dropped. Returns its id and the slots that it takes,
    /// or none if the burst has no room for it. A chain that can be kept has a `place` in the burst, and an id.
    #[cold]
    fn receive_unusual<'q>(
        &'q self,
        burst: &mut Burst<'_, 'q>,
        slot: u16,
        (addr, tail): (u64, Tail),
        place: Option<(usize, u16)>,
        budget: &Budget,
    ) -> Result<Option<(u16, u16)>, Fatal> {
        let simple = tail.packed_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == 0;
        if simple && chain::push_long(&self.used.areas.memory, burst, (addr, tail.len()), place) {
            return Ok(Some((tail.packed_id(), 1)));
        }
        let chain = &mut *self.chain.borrow_mut();
        let taken = chain.packed(&self.used.areas.memory, &self.used.areas, Access::Read, slot, addr, tail)?;
        budget.spend(chain.descriptors);
        Ok(chain.push_frame(burst, &self.dropped).then_some(taken))
    }

    /// Ends the call after the chain at `at`, and counts if others wait. Returns the slots left for this call.
    fn cut_short_after(&self, at: Position, slots: u16, left: u16) -> u16 {
        if slots < left && self.used.available(at.advance(slots, self.used.areas.size)).is_some() {
            self.cut_short.set(self.cut_short.get() + 1);
        }
        left.min(slots)
    }

    #[inline(always)]
    pub(super) fn recycle(&self) {
        if let Some(kept) = &self.kept {
            kept.give_back(|id, slots| self.used.put(id, slots, 0, 0));
            return self.used.publish();
        }
        let taken = &self.taken[..self.count.take()];
        if self.used.in_order {
            // One descriptor, where the batch starts, stands for the whole batch (virtio 1.2 §2.8.9).
            if let Some(last) = taken.last() {
                self.used.put(last.get().0, taken.iter().map(|t| t.get().1).sum(), 0, 0);
            }
        } else {
            for chain in taken {
                let (id, slots) = chain.get();
                self.used.put(id, slots, 0, 0);
            }
        }
        self.used.publish();
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
    fn post_chain(
        &self,
        posted: &PostedQueue,
        budget: &Budget,
        slot: u16,
        addr: u64,
        tail: Tail,
    ) -> Result<u16, Fatal> {
        let chain = &mut *self.chain.borrow_mut();
        let (id, slots) = chain.packed(&self.used.areas.memory, &self.used.areas, Access::Write, slot, addr, tail)?;
        budget.spend(chain.descriptors);
        posted.push_chain(&chain.buffers, chain.good, id, slots);
        Ok(slots)
    }
}

impl Ring for Available {
    type Used = Used;

    fn used(&self) -> &Used {
        &self.used
    }

    #[inline(always)]
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, fetch: bool, budget: &Budget) -> Result<(), Fatal> {
        if posted.len() >= wanted || budget.is_spent() {
            return Ok(());
        }
        let used = &self.used;
        let size = used.areas.size;
        let memory = &*used.areas.memory;
        let mut at = used.avail.get();
        let (mut most, mut slots_left) = (wanted, used.room());
        while posted.len() < most && posted.has_room() && slots_left > 0 {
            let Some((addr, tail)) = used.available(at) else { break };
            let simple = tail.packed_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == F_WRITE;
            let slots = if simple && let Some(ptr) = memory.translate(addr, tail.len().into()) {
                if fetch {
                    // The frame's first line. The header, if on another line, hardly ever changes.
                    prefetch_write(ptr.as_ptr().wrapping_add(NET_HEADER as usize));
                }
                posted.push(Posted { ptr: ptr.as_ptr(), len: tail.len(), id: tail.packed_id(), slots: 1 });
                1
            } else {
                let slots = self.post_chain(posted, budget, at.slot, addr, tail)?;
                if budget.is_spent() {
                    most = 0;
                }
                slots
            };
            if slots > slots_left {
                return Err(Fatal::LongChain { size });
            }
            slots_left -= slots;
            at = at.advance(slots, size);
        }
        used.avail.set(at);
        Ok(())
    }

    #[inline(always)]
    fn put_used(&self, last: Posted, written: u32) {
        // WRITE tells that something was written (§2.8.4).
        self.used.put(last.id, last.slots, written, if written > 0 { F_WRITE } else { 0 });
    }

    #[inline(always)]
    fn publish(&self) {
        self.used.publish();
    }
}
