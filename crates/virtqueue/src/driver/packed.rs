//! Packed rings, driver side (virtio 1.2 §2.8).

use super::ids::{Entry, Ids, Outstanding};
use super::run::{self, HostAddresses, NewEntries, Offer, Run, Take, TakenBack, UsedEntries};
use super::{Buffer, UsedBuffer};
use crate::areas::Areas;
use crate::config::{QueueConfig, features};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Instead, PACKED_LEN_BITS};
use crate::layout::{F_AVAIL, F_NEXT, F_USED, F_WRITE, Tail, event, packed_available_bits, packed_used_bits};
use crate::memory::Memory;
use crate::ordering::{consume, crosses, get, publish, put};
use crate::position::Position;
use packet::copy::prefetch_write;
use std::sync::Arc;

/// The driver side of a packed ring.
pub struct PackedDriver {
    areas: Areas,
    exchanges: bool,
    /// Free buffer ids, and the number of free slots.
    ids: Ids,
    free: u16,
    outstanding: Outstanding,
    avail: Position,
    used: Position,
    /// First descriptor added since the last publish. It is written last: until then the device sees none of them.
    first: Option<FirstAdded>,
    /// Position at the last query whether the device wants a kick.
    kicked: Position,
}

/// A descriptor that is not yet written.
struct FirstAdded {
    slot: u16,
    tail: Tail,
}

impl PackedDriver {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<PackedDriver, SetupError> {
        let areas = Areas::new(memory, config)?;
        let size = config.size;
        // A zero descriptor is neither available nor used in the first lap.
        (0..size).for_each(|slot| put(areas.tail(slot), 0));
        put(areas.driver_event(), u32::from(event::ENABLE) << 16);
        let start = Position { slot: 0, wrap: true };
        Ok(PackedDriver {
            areas,
            exchanges: config.negotiated.has(features::EXCHANGE),
            ids: Ids::new(size, config.negotiated.returns()),
            free: size,
            outstanding: Outstanding::new(size, config.negotiated.returns()),
            avail: start,
            used: start,
            first: None,
            kicked: start,
        })
    }

    #[inline(always)]
    pub(super) fn add(&mut self, buffers: &[Buffer]) -> u16 {
        let size = self.areas.size;
        let id = self.ids.take().expect("no more chains than descriptors");
        for (i, buffer) in buffers.iter().enumerate() {
            let at = self.avail;
            let next = if i + 1 < buffers.len() { F_NEXT } else { 0 };
            let write = if buffer.writable { F_WRITE } else { 0 };
            put(self.areas.addr(at.slot), buffer.addr);
            let tail = Tail::packed(buffer.len, id, next | write | packed_available_bits(at.wrap));
            if self.first.is_none() {
                self.first = Some(FirstAdded { slot: at.slot, tail });
            } else {
                put(self.areas.tail(at.slot), tail.0);
            }
            self.avail = at.advance(1, size);
        }
        self.free -= buffers.len() as u16;
        self.outstanding.add(id, buffers);
        id
    }

    #[inline(always)]
    pub(super) fn pop_used(&mut self) -> Result<Option<UsedBuffer>, Fatal> {
        let at = self.used;
        let mut tail = Tail(0);
        if !self.outstanding.in_batch() {
            tail = Tail(consume(self.areas.tail(at.slot)));
            if tail.packed_state() != packed_used_bits(at.wrap) || self.free == self.areas.size {
                return Ok(None);
            }
        }
        let (len, instead) = match tail.len() {
            len if self.exchanges => {
                (len & ((1 << PACKED_LEN_BITS) - 1), Instead::from_bits((len >> PACKED_LEN_BITS) as u16))
            }
            len => (len, Instead::OWN),
        };
        let done = self
            .outstanding
            .next(self.ids.oldest(), || Entry { id: tail.packed_id().into(), len, instead })
            .ok_or(Fatal::BadHead { head: tail.packed_id(), size: self.areas.size })?;
        // The next lap writes here. Stores to one line after the other would wait until the device's processor gives them up.
        prefetch_write(self.areas.tail(at.slot).as_ptr().cast());
        self.used = at.advance(done.descriptors, self.areas.size);
        self.free += done.descriptors;
        self.ids.give_back(done.id);
        Ok(Some(UsedBuffer { id: done.id, len: done.len, instead: done.instead }))
    }

    #[inline(always)]
    pub(super) fn wants_kick(&mut self) -> bool {
        let (new, old) = (self.avail, self.kicked);
        if new == old {
            return false;
        }
        self.kicked = new;
        let asked = get(self.areas.device_event());
        match (asked >> 16) as u16 & 3 {
            event::DISABLE => false,
            event::DESC => {
                let (size, event) = (self.areas.size, Position::from_bits(asked as u16));
                crosses(event.in_lap_of(new, size), new.slot, old.in_lap_of(new, size))
            }
            _ => true,
        }
    }

    pub(super) fn set_interrupts(&mut self, wanted: bool) {
        let flags = if wanted { event::ENABLE } else { event::DISABLE };
        put(self.areas.driver_event(), u32::from(flags) << 16);
    }

    pub(super) fn has_used(&self) -> bool {
        let used = |tail: Tail| tail.packed_state() == packed_used_bits(self.used.wrap);
        self.outstanding.in_batch() || used(Tail(consume(self.areas.tail(self.used.slot))))
    }
}

/// Used descriptors.
struct UsedDescriptors<'a> {
    areas: &'a Areas,
    at: Position,
    /// The bits of a used descriptor in the lap of `at`.
    bits: u16,
}

impl UsedEntries for UsedDescriptors<'_> {
    #[inline(always)]
    fn read(&self) -> Option<Entry> {
        let tail = Tail(consume(self.areas.tail(self.at.slot)));
        (tail.packed_state() == self.bits).then(|| Entry {
            id: tail.packed_id().into(),
            len: tail.len(),
            instead: Instead::OWN,
        })
    }

    #[inline(always)]
    fn prepare(&self, _: u16) {
        // As in `pop_used`: the next lap writes here.
        prefetch_write(self.areas.tail(self.at.slot).as_ptr().cast());
    }

    #[inline(always)]
    fn pass(&mut self) {
        if self.at.pass(1, self.areas.size) {
            self.bits ^= F_AVAIL | F_USED;
        }
    }
}

/// Descriptors that are made available.
struct NewDescriptors<'a> {
    areas: &'a Areas,
    at: Position,
    /// The bits of an available descriptor in the lap of `at`.
    bits: u16,
    /// See [`PackedDriver::first`].
    first: Option<FirstAdded>,
}

impl NewEntries for NewDescriptors<'_> {
    #[inline(always)]
    fn put(&mut self, id: u16, Buffer { addr, len, writable }: Buffer) {
        let slot = self.areas.slot(self.at.slot);
        put(&slot.addr, addr);
        let tail = Tail::packed(len, id, self.bits | if writable { F_WRITE } else { 0 });
        if self.first.is_none() {
            self.first = Some(FirstAdded { slot: self.at.slot, tail });
        } else {
            put(&slot.tail, tail.0);
        }
        if self.at.pass(1, self.areas.size) {
            self.bits ^= F_AVAIL | F_USED;
        }
    }
}

/// A caller splices only with a device that it knows to write headers.
impl Run for PackedDriver {
    const WRITES_HEADERS: bool = true;

    type Reach = HostAddresses;

    #[inline(always)]
    fn reach(&self) -> HostAddresses {
        HostAddresses
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        self.free
    }

    #[inline(always)]
    fn publish(&mut self) {
        if let Some(first) = self.first.take() {
            publish(self.areas.tail(first.slot), first.tail.0);
        }
    }

    #[inline(always)]
    fn peek(&mut self, most: u16, look: impl FnMut(u16)) {
        if self.exchanges {
            return;
        }
        let (areas, at) = (&self.areas, self.used);
        let mut used = UsedDescriptors { areas, at, bits: packed_used_bits(at.wrap) };
        run::peek(&mut used, &self.ids, most.min(self.areas.size - self.free), look);
    }

    #[inline(always)]
    fn take_back(&mut self, most: u16, take: impl Take) -> TakenBack {
        if self.exchanges {
            return TakenBack { chains: 0, stopped: true };
        }
        let (areas, at) = (&self.areas, self.used);
        let mut used = UsedDescriptors { areas, at, bits: packed_used_bits(at.wrap) };
        let most = most.min(self.areas.size - self.free);
        let taken = run::take_back(&mut used, &mut self.ids, &mut self.outstanding, most, take);
        self.used = used.at;
        self.free += taken.chains;
        taken
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, offer: impl Offer) -> u16 {
        let (at, first) = (self.avail, self.first.take());
        let mut entries = NewDescriptors { areas: &self.areas, at, bits: packed_available_bits(at.wrap), first };
        let added = run::add(&mut entries, &mut self.ids, &mut self.outstanding, most.min(self.free), offer);
        (self.avail, self.first) = (entries.at, entries.first);
        self.free -= added;
        added
    }
}
