//! Split rings, driver side (virtio 1.2 §2.7).

use super::ids::{Entry, Ids, Outstanding};
use super::run::{self, HostAddresses, NewEntries, Offer, Run, Take, TakenBack, UsedEntries};
use super::{Buffer, UsedBuffer};
use crate::areas::Areas;
use crate::config::{QueueConfig, features};
use crate::error::{Fatal, SetupError};
use crate::exchange::Instead;
use crate::layout::{AVAIL_NO_INTERRUPT, F_NEXT, F_WRITE, Tail, USED_NO_NOTIFY};
use crate::memory::Memory;
use crate::ordering::{consume, crosses, get, publish, put, put_changed};
use packet::copy::prefetch_write;
use std::sync::Arc;

/// The driver side of a split ring.
pub struct SplitDriver {
    areas: Areas,
    mask: u16,
    event_idx: bool,
    exchanges: bool,
    /// Free descriptors.
    ids: Ids,
    outstanding: Outstanding,
    /// The next descriptor of each one in its chain.
    next_of: Box<[u16]>,
    /// Next index of the available ring, and the index up to which it is published.
    avail: u16,
    published: u16,
    /// Index at the last query whether the device wants a kick.
    kicked: u16,
    /// Next index of the used ring, and the device's index at the last read.
    used: u16,
    seen: u16,
    /// Whether the buffer added last lies elsewhere than the one before in its descriptor.
    moves: bool,
}

impl SplitDriver {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<SplitDriver, SetupError> {
        let areas = Areas::new(memory, config)?;
        let size = config.size;
        put(areas.avail_flags(), 0);
        put(areas.avail_idx(), 0);
        put(areas.used_flags(), 0);
        put(areas.used_idx(), 0);
        Ok(SplitDriver {
            areas,
            mask: size - 1,
            event_idx: config.negotiated.has(features::EVENT_IDX),
            exchanges: config.negotiated.has(features::EXCHANGE),
            ids: Ids::new(size, config.negotiated.returns()),
            outstanding: Outstanding::new(size, config.negotiated.returns()),
            next_of: vec![0; size.into()].into(),
            avail: 0,
            published: 0,
            kicked: 0,
            used: 0,
            seen: 0,
            moves: false,
        })
    }

    #[inline(always)]
    pub(super) fn add(&mut self, buffers: &[Buffer]) -> u16 {
        let head = self.ids.take().expect("there are free descriptors");
        let mut at = head;
        for (i, buffer) in buffers.iter().enumerate() {
            let write = if buffer.writable { F_WRITE } else { 0 };
            let (flags, next) = if i + 1 < buffers.len() {
                let next = self.ids.take().expect("there are free descriptors");
                self.next_of[usize::from(at)] = next;
                (write | F_NEXT, next)
            } else {
                (write, 0)
            };
            self.moves = put_changed(self.areas.addr(at), buffer.addr);
            put_changed(self.areas.tail(at), Tail::split(buffer.len, flags, next).0);
            at = next;
        }
        put_changed(self.areas.avail_entry(self.avail & self.mask), head);
        self.outstanding.add(head, buffers);
        self.avail = self.avail.wrapping_add(1);
        head
    }

    #[inline(always)]
    pub(super) fn pop_used(&mut self) -> Result<Option<UsedBuffer>, Fatal> {
        if self.used == self.seen {
            self.seen = consume(self.areas.used_idx());
            let moved = self.seen.wrapping_sub(self.used);
            if moved == 0 {
                return Ok(None);
            }
            if moved > self.areas.size {
                return Err(Fatal::IndexJump { moved, size: self.areas.size });
            }
        }
        let (id_at, len_at) = self.areas.used_element(self.used & self.mask);
        let word = get(id_at);
        let (id, instead) = match self.exchanges {
            true => (word & 0xffff, Instead::from_bits((word >> 16) as u16)),
            false => (word, Instead::OWN),
        };
        let done = self
            .outstanding
            .next(self.ids.oldest(), || Entry { id, len: get(len_at), instead })
            .ok_or(Fatal::BadHead { head: id as u16, size: self.areas.size })?;
        self.used = self.used.wrapping_add(1);
        if self.moves {
            // The device has read the line, and one store after the other would wait until the device's processor gives it up.
            prefetch_write(self.areas.addr(done.id).as_ptr().cast());
        }
        self.ids.give_back(done.id);
        let mut at = done.id;
        for _ in 1..done.descriptors {
            at = self.next_of[usize::from(at)];
            self.ids.give_back(at);
        }
        Ok(Some(UsedBuffer { id: done.id, len: done.len, instead: done.instead }))
    }

    #[inline(always)]
    pub(super) fn wants_kick(&mut self) -> bool {
        let (new, old) = (self.published, self.kicked);
        if new == old {
            return false;
        }
        self.kicked = new;
        if self.event_idx {
            crosses(get(self.areas.avail_event()), new, old)
        } else {
            get(self.areas.used_flags()) & USED_NO_NOTIFY == 0
        }
    }

    pub(super) fn set_interrupts(&mut self, wanted: bool) {
        if self.event_idx {
            if wanted {
                put(self.areas.used_event(), self.used);
            }
        } else {
            put(self.areas.avail_flags(), if wanted { 0 } else { AVAIL_NO_INTERRUPT });
        }
    }

    pub(super) fn has_used(&self) -> bool {
        self.outstanding.in_batch() || consume(self.areas.used_idx()) != self.used
    }
}

/// Used elements that are known.
struct UsedElements<'a> {
    areas: &'a Areas,
    mask: u16,
    at: u16,
}

impl UsedEntries for UsedElements<'_> {
    #[inline(always)]
    fn read(&self) -> Option<Entry> {
        let (id_at, len_at) = self.areas.used_element(self.at & self.mask);
        Some(Entry { id: get(id_at), len: get(len_at), instead: Instead::OWN })
    }

    #[inline(always)]
    fn prepare(&self, id: u16) {
        // As in `pop_used`.
        prefetch_write(self.areas.addr(id).as_ptr().cast());
    }

    #[inline(always)]
    fn pass(&mut self) {
        self.at = self.at.wrapping_add(1);
    }
}

/// Descriptors that are made available.
struct NewDescriptors<'a> {
    areas: &'a Areas,
    mask: u16,
    /// Next index of the available ring.
    avail: u16,
}

impl NewEntries for NewDescriptors<'_> {
    #[inline(always)]
    fn put(&mut self, id: u16, Buffer { addr, len, writable }: Buffer) {
        let slot = self.areas.slot(id);
        put(&slot.addr, addr);
        put_changed(&slot.tail, Tail::split(len, if writable { F_WRITE } else { 0 }, 0).0);
        put_changed(self.areas.avail_entry(self.avail & self.mask), id);
        self.avail = self.avail.wrapping_add(1);
    }
}

impl SplitDriver {
    /// Returns the number of used elements that are known, after a look if fewer than `wanted` are. `None` if the ring exchanges buffers,
    /// or is broken, which `pop_used` reports.
    #[inline(always)]
    fn known(&mut self, wanted: u16) -> Option<u16> {
        if self.exchanges {
            return None;
        }
        let known = self.seen.wrapping_sub(self.used);
        if known >= wanted {
            return Some(known);
        }
        let seen = consume(self.areas.used_idx());
        let known = seen.wrapping_sub(self.used);
        if known > self.areas.size {
            return None;
        }
        self.seen = seen;
        Some(known)
    }
}

/// A caller splices only with a device that it knows to write headers.
impl Run for SplitDriver {
    const WRITES_HEADERS: bool = true;

    type Reach = HostAddresses;

    #[inline(always)]
    fn reach(&self) -> HostAddresses {
        HostAddresses
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        self.ids.free()
    }

    #[inline(always)]
    fn publish(&mut self) {
        if self.avail != self.published {
            publish(self.areas.avail_idx(), self.avail);
            self.published = self.avail;
        }
    }

    #[inline(always)]
    fn take_back(&mut self, most: u16, take: impl Take) -> TakenBack {
        let Some(known) = self.known(most) else { return TakenBack { chains: 0, stopped: true } };
        let (areas, mask) = (&self.areas, self.mask);
        let mut used = UsedElements { areas, mask, at: self.used };
        let taken = run::take_back(&mut used, &mut self.ids, &mut self.outstanding, most.min(known), take);
        self.used = used.at;
        taken
    }

    #[inline(always)]
    fn peek(&mut self, most: u16, look: impl FnMut(u16)) {
        let Some(known) = self.known(most) else { return };
        let mut used = UsedElements { areas: &self.areas, mask: self.mask, at: self.used };
        run::peek(&mut used, &self.ids, most.min(known), look);
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, offer: impl Offer) -> u16 {
        let mut entries = NewDescriptors { areas: &self.areas, mask: self.mask, avail: self.avail };
        let added = run::add(&mut entries, &mut self.ids, &mut self.outstanding, most, offer);
        self.avail = entries.avail;
        self.moves |= added > 0;
        added
    }
}
