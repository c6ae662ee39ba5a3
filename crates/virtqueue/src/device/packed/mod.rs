//! Packed rings, device side (virtio 1.2 §2.8).

mod receive;
mod transmit;

pub(super) use transmit::PackedTransmit;

use super::chain::{Access, KIND, WalkedChain};
use super::ring::{Common, DeviceRing, Head, Usual};
use super::taken::TakenChain;
use crate::areas::Slot;
use crate::config::{Format, QueueConfig};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Instead, PACKED_LEN_BITS};
use crate::layout::{Descriptor, F_AVAIL, F_USED, F_WRITE, Tail, event, packed_available_bits, packed_used_bits};
use crate::memory::{DirtyLog, Memory};
use crate::ordering::{crosses, get};
use crate::position::Position;
use packet::MAX_BURST;
use packet::copy::prefetch_write;
use std::cell::{Cell, RefMut};
use std::sync::Arc;

/// The device side of a packed ring, of either direction.
pub(super) struct PackedRing<L> {
    common: Common<L>,
    /// Next descriptor that the guest will make available.
    next_avail: Cell<Position>,
    used: Cell<Used>,
    /// The used descriptors before this one are published.
    published: Cell<Position>,
    /// Used position at the last query whether the guest wants a notification.
    notified: Cell<Position>,
}

/// The used descriptors written since the last publish.
#[derive(Clone, Copy)]
pub(in crate::device) struct Used {
    /// Next descriptor to be written as used.
    next: Position,
    /// A tail with the flags of a used descriptor in the lap of `next`, and the one that tells that the device has written.
    written: Tail,
    /// The first of them. It is written last: until then the guest sees none of them.
    first: Option<FirstUsed>,
}

/// A used descriptor that is not yet written.
#[derive(Clone, Copy)]
struct FirstUsed {
    slot: u16,
    tail: Tail,
}

/// How far a call has read the ring, and how far it may go: not beyond the slots that were free to be offered when it
/// began. A guest that writes flags while we read could otherwise send us round the ring again.
#[derive(Clone, Copy)]
pub(in crate::device) struct Scan {
    at: Position,
    /// The bits of an available descriptor in the lap of `at`.
    available: u16,
    slots_left: u16,
}

/// Slots on a cache line.
const SLOTS_OF_LINE: usize = 4;

/// The bits that tell whether a descriptor is available or used: all of them change from lap to lap.
const STATE: u16 = F_AVAIL | F_USED;

impl Scan {
    /// Passes a chain that takes this many slots, at most those left.
    #[inline(always)]
    fn pass(&mut self, slots: u16, size: u16) {
        self.slots_left -= slots;
        if self.at.pass(slots, size) {
            self.available ^= STATE;
        }
    }

    /// Returns how the usual chains of this lap look.
    #[inline(always)]
    fn usual(&self, access: Access) -> Usual {
        Usual { mask: Tail::packed(0, 0, STATE | KIND), bits: Tail::packed(0, 0, self.available | access.single()) }
    }
}

impl<L: DirtyLog> PackedRing<L> {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        let common = Common::new(memory, config, log)?;
        // Everything taken is returned before a queue stops, so both sides resume at the same position. If we were
        // killed in between, the used side is behind, and chains taken but not returned are taken again.
        let avail = Position::from_bits(config.base as u16);
        let used = Position::from_bits((config.base >> 16) as u16);
        // A frontend that only knows split rings sends no used half.
        let start = if config.base >> 16 == 0 { avail } else { used };
        if start.slot >= config.size {
            return Err(SetupError::Base { base: config.base, format: Format::Packed, size: config.size });
        }
        Ok(PackedRing {
            common,
            next_avail: Cell::new(start),
            used: Cell::new(Used {
                next: start,
                written: Tail::packed(0, 0, F_WRITE | packed_used_bits(start.wrap)),
                first: None,
            }),
            published: Cell::new(start),
            notified: Cell::new(start),
        })
    }

    /// Returns the descriptor where `scan` is if the guest made it available.
    #[inline(always)]
    fn available(&self, scan: &Scan) -> Option<Head> {
        let head = Head { index: scan.at.slot, descriptor: self.slot(scan).consume() };
        (head.descriptor.tail.packed_state() == scan.available).then_some(head)
    }

    /// Returns the slot where `scan` is.
    #[inline(always)]
    fn slot(&self, scan: &Scan) -> &Slot {
        &self.common.areas.slots(scan.at.slot, 1)[0]
    }

    /// Returns the slots from `scan` on, at most `count`, as far as they lie one after the other and `scan` may go.
    #[inline(always)]
    fn run(&self, scan: &Scan, count: u16) -> &[Slot] {
        let start = scan.at.slot;
        self.common.areas.slots(start, count.min(scan.slots_left).min(self.common.areas.size - start))
    }

    /// Fetches the lines of the `count` slots from `scan` on by `fetch`, a burst at most, while others are worked on: a processor that
    /// asks for a line only when it reads it waits, and one that writes the line later asks for it twice. Does so only if the guest
    /// has written the last of them, as lines that it is about to write are better left to it. That is a hint: all are read again.
    #[inline(always)]
    fn fetch_ahead(&self, scan: &Scan, count: u16, fetch: impl Fn(*const u8)) {
        let slots = self.run(scan, count.min(MAX_BURST as u16));
        if slots.last().is_none_or(|last| last.consume().tail.packed_state() != scan.available) {
            return;
        }
        each_line(slots, fetch);
    }

    /// Starts to read chains. The guest may have made the whole ring available except slots taken and not yet published
    /// as used. A slot offered again before it was published is left for a later call.
    #[inline(always)]
    fn scan(&self) -> Scan {
        let at = self.next_avail.get();
        Scan { at, available: packed_available_bits(at.wrap), slots_left: self.common.areas.size - self.slots_taken() }
    }

    /// Returns the number of slots of the chains taken and not yet published as used.
    #[inline(always)]
    fn slots_taken(&self) -> u16 {
        self.published.get().distance(self.next_avail.get(), self.common.areas.size)
    }

    /// Writes a used descriptor for a chain that `len` bytes were written to, at least one.
    #[inline(always)]
    fn put_written(&self, used: &mut Used, chain: TakenChain, len: u32, instead: Instead) {
        // WRITE tells that something was written (§2.8.4).
        self.put(used, chain, len, instead, used.written);
    }

    /// Writes a used descriptor for a chain that nothing was written to.
    #[inline(always)]
    fn put_nothing(&self, used: &mut Used, chain: TakenChain, instead: Instead) {
        self.put(used, chain, 0, instead, Tail(used.written.0 & !Tail::packed(0, 0, F_WRITE).0));
    }

    #[inline(always)]
    fn put(&self, used: &mut Used, chain: TakenChain, len: u32, instead: Instead, flags: Tail) {
        let len = len | u32::from(instead.bits()) << PACKED_LEN_BITS;
        let tail = Tail(Tail::packed(len, chain.id, 0).0 | flags.0);
        let slot = used.next.slot;
        if used.first.is_none() {
            used.first = Some(FirstUsed { slot, tail });
        } else {
            self.common.writer.put(self.common.areas.tail(slot), tail.0);
        }
        if used.next.pass(chain.slots, self.common.areas.size) {
            used.written.0 ^= Tail::packed(0, 0, STATE).0;
        }
    }

    #[inline(always)]
    fn publish_used(&self) {
        let mut used = self.used.get();
        if let Some(first) = used.first.take() {
            self.common.writer.publish(self.common.areas.tail(first.slot), first.tail.0);
            self.published.set(used.next);
            self.used.set(used);
        }
    }
}

/// Passes an address on each line of `slots` to `fetch`, but for the first of them if they begin in the middle of it: a call for the
/// slots before these has passed that one.
#[inline(always)]
fn each_line(slots: &[Slot], fetch: impl Fn(*const u8)) {
    let last = slots.as_ptr().wrapping_add(SLOTS_OF_LINE - 1);
    (0..slots.len()).step_by(SLOTS_OF_LINE).for_each(|at| fetch(last.wrapping_add(at).cast()));
}

/// Where a call stands in reading available chains.
#[derive(Clone, Copy)]
pub(in crate::device) struct PackedAvailable {
    at: Position,
    /// As in the lap of `at`.
    usual: Usual,
}

impl<L: DirtyLog> DeviceRing for PackedRing<L> {
    type Log = L;
    type Available = PackedAvailable;

    #[inline(always)]
    fn read_available(&self, _: u16, access: Access) -> Result<(PackedAvailable, u16), Fatal> {
        let scan = self.scan();
        Ok((PackedAvailable { at: scan.at, usual: scan.usual(access) }, scan.slots_left))
    }

    #[inline(always)]
    fn next_available(&self, available: &PackedAvailable) -> (&Slot, Usual) {
        (self.common.areas.slot(available.at.slot), available.usual)
    }

    #[inline(always)]
    fn has_available(&self, available: &PackedAvailable) -> bool {
        let (entry, usual) = self.next_available(available);
        entry.consume().tail.packed_state() == usual.bits.packed_state()
    }

    #[inline(always)]
    fn pass_available(&self, available: &mut PackedAvailable) {
        if available.at.pass(1, self.common.areas.size) {
            available.usual.bits.0 ^= Tail::packed(0, 0, STATE).0;
        }
    }

    #[inline(always)]
    fn set_available(&self, PackedAvailable { at, .. }: PackedAvailable) {
        let (from, size) = (self.next_avail.replace(at), self.common.areas.size);
        // These chains return later, one by one: see `fetch_to_return`.
        let taken = from.distance(at, size).min(size - from.slot);
        each_line(self.common.areas.slots(from.slot, taken), prefetch_write);
    }

    #[inline(always)]
    fn common(&self) -> &Common<L> {
        &self.common
    }

    type Entry = Slot;

    #[inline(always)]
    fn read(&self, slot: &Slot) -> Option<(Descriptor, u16)> {
        let descriptor = slot.consume();
        Some((descriptor, descriptor.tail.packed_id()))
    }

    #[inline(always)]
    fn single(head: Head, access: Access) -> Option<TakenChain> {
        let tail = head.descriptor.tail;
        (tail.packed_flags() & KIND == access.single()).then_some(TakenChain { id: tail.packed_id(), slots: 1 })
    }

    /// Stores to one line after the other would wait until the guest's processor gives them up.
    #[inline(always)]
    fn fetch_to_return(slot: &Slot) {
        prefetch_write(slot.tail.as_ptr().cast());
    }

    fn walk(&self, index: u16, first: Descriptor, access: Access) -> Result<RefMut<'_, WalkedChain>, Fatal> {
        let mut walked = self.common.walked.borrow_mut();
        walked.packed(&self.common.areas, access, index, first)?;
        Ok(walked)
    }

    fn set_kicks(&self, wanted: bool) {
        let flags = if wanted { event::ENABLE } else { event::DISABLE };
        self.common.writer.put(self.common.areas.device_event(), u32::from(flags) << 16);
    }

    #[inline(always)]
    fn wants_notification(&self) -> bool {
        let (new, old) = (self.used.get().next, self.notified.get());
        if new == old {
            return false;
        }
        self.notified.set(new);
        let asked = get(self.common.areas.driver_event());
        match (asked >> 16) as u16 & 3 {
            event::DISABLE => false,
            event::DESC => {
                let (size, event) = (self.common.areas.size, Position::from_bits(asked as u16));
                crosses(event.in_lap_of(new, size), new.slot, old.in_lap_of(new, size))
            }
            _ => true,
        }
    }

    fn base(&self) -> u32 {
        let bits = u32::from(self.used.get().next.bits());
        bits | bits << 16
    }
}
