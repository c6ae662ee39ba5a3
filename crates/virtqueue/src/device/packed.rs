//! Packed rings, device side (virtio 1.2 §2.8).

use super::DropCounts;
use super::chain::{Access, Chain};
use super::deliver::Ring;
use super::keep::Kept;
use super::posted::{Posted, PostedQueue};
use crate::areas::Areas;
use crate::config::{Format, QueueConfig, features};
use crate::copy::{prefetch, prefetch_write};
use crate::error::{Fatal, SetupError};
use crate::frame::{Burst, MAX_BURST, MAX_FRAME, MIN_FRAME, Segment};
use crate::layout::{F_INDIRECT, F_NEXT, F_WRITE, NET_HEADER, Tail, event, packed_is_available, packed_used_bits};
use crate::memory::Memory;
use crate::ordering::{consume, crosses, get, publish, put};
use crate::position::Position;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The used side, and what both queues of a pair need of the ring.
pub(super) struct Used {
    pub(super) areas: Areas,
    in_order: bool,
    /// Next descriptor that the guest will make available.
    avail: Cell<Position>,
    /// Next descriptor to be written as used.
    next: Cell<Position>,
    /// First descriptor of what was written since the last publish. It goes last: until then the guest sees nothing.
    first: Cell<Option<(u16, u64)>>,
    /// Place up to which the guest was asked whether it wants a notification.
    notified: Cell<Position>,
}

impl Used {
    fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Used, SetupError> {
        let areas = Areas::new(memory, config)?;
        // Everything taken is returned before a queue stops, so both sides go on at the same place. If we were killed
        // in between, the used side is the older one, and what was taken and not returned is taken again.
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
            first: Cell::new(None),
            notified: Cell::new(start),
        })
    }

    /// The descriptor at `at` if the guest made it available.
    #[inline(always)]
    fn available(&self, at: Position) -> Option<(u64, Tail)> {
        let tail = Tail(consume(self.areas.tail(at.slot)));
        packed_is_available(tail.packed_flags(), at.wrap).then(|| (get(self.areas.addr(at.slot)), tail))
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
    /// Id and slots of every chain taken; with IN_ORDER one entry for all of them.
    taken: [Cell<(u16, u16)>; MAX_BURST],
    count: Cell<usize>,
    /// Chains that somebody keeps, if they may.
    kept: Option<Kept>,
    chain: RefCell<Chain>,
    dropped: Cell<DropCounts>,
}

// SAFETY: the pointers in it are into memory that `used.areas` keeps mapped; any thread may use them.
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

    /// Compiled for both cases: whether chains can be kept is not asked of every frame.
    #[inline(always)]
    fn take<'q>(&'q self, burst: &mut Burst<'_, 'q>, kept: Option<&Kept>) -> Result<usize, Fatal> {
        let used = &self.used;
        let size = used.areas.size;
        let memory = &*used.areas.memory;
        let mut at = used.avail.get();
        // A guest that writes flags while we read could otherwise send us round the ring.
        let mut slots_left = size;
        let mut taken = 0;
        while taken < MAX_BURST && burst.room() > 0 && slots_left > 0 {
            let Some((addr, tail)) = used.available(at) else { break };
            let simple = tail.packed_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == 0;
            let len = tail.len().wrapping_sub(NET_HEADER);
            let (id, slots) = if simple
                && (MIN_FRAME..=MAX_FRAME).contains(&len)
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
                match self.receive_chain(burst, at.slot, addr, tail)? {
                    Some(chain) => chain,
                    None => break,
                }
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

    /// Takes a chain of several buffers, or one that must be dropped; none if the burst has no room for it.
    #[cold]
    fn receive_chain<'q>(
        &'q self,
        burst: &mut Burst<'_, 'q>,
        slot: u16,
        addr: u64,
        tail: Tail,
    ) -> Result<Option<(u16, u16)>, Fatal> {
        let chain = &mut *self.chain.borrow_mut();
        let place = chain.packed(&self.used.areas.memory, &self.used.areas, Access::Read, slot, addr, tail)?;
        Ok(chain.push_frame(burst, &self.dropped).then_some(place))
    }

    #[inline(always)]
    pub(super) fn recycle(&self) {
        if let Some(kept) = &self.kept {
            kept.give_back(|id, slots| self.used.put(id, slots, 0, 0));
            return self.used.publish();
        }
        let taken = &self.taken[..self.count.take()];
        if self.used.in_order {
            // One descriptor, where the batch starts, stands for all of it (virtio 1.2 §2.8.9).
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
    /// Slots read ahead and not yet returned.
    ahead: Cell<u16>,
}

// SAFETY: as for `Transmitq`.
unsafe impl Send for Available {}

impl Available {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Ok(Available { used: Used::new(memory, config)?, chain: RefCell::new(Chain::new()), ahead: Cell::new(0) })
    }

    #[cold]
    fn post_chain(&self, posted: &PostedQueue, slot: u16, addr: u64, tail: Tail) -> Result<u16, Fatal> {
        let chain = &mut *self.chain.borrow_mut();
        let (id, slots) = chain.packed(&self.used.areas.memory, &self.used.areas, Access::Write, slot, addr, tail)?;
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
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, fetch: bool) -> Result<(), Fatal> {
        let used = &self.used;
        let size = used.areas.size;
        let memory = &*used.areas.memory;
        let mut at = used.avail.get();
        let mut ahead = self.ahead.get();
        while posted.len() < wanted && posted.has_room() && ahead < size {
            let Some((addr, tail)) = used.available(at) else { break };
            let simple = tail.packed_flags() & (F_NEXT | F_WRITE | F_INDIRECT) == F_WRITE;
            let slots = if simple && let Some(ptr) = memory.translate(addr, tail.len().into()) {
                if fetch {
                    // The frame's first line: the header, if on another, hardly ever changes.
                    prefetch_write(ptr.as_ptr().wrapping_add(NET_HEADER as usize));
                }
                posted.push(Posted { ptr: ptr.as_ptr(), len: tail.len(), id: tail.packed_id(), slots: 1 });
                1
            } else {
                self.post_chain(posted, at.slot, addr, tail)?
            };
            if slots > size - ahead {
                return Err(Fatal::LongChain { size });
            }
            ahead += slots;
            at = at.advance(slots, size);
        }
        used.avail.set(at);
        self.ahead.set(ahead);
        Ok(())
    }

    #[inline(always)]
    fn put_used(&self, last: Posted, written: u32) {
        // WRITE says that something was written (§2.8.4).
        self.used.put(last.id, last.slots, written, if written > 0 { F_WRITE } else { 0 });
        self.ahead.set(self.ahead.get() - last.slots);
    }

    #[inline(always)]
    fn publish(&self) {
        self.used.publish();
    }
}
