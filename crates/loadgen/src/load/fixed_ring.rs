//! A ring with fixed buffers: each slot keeps its buffer, and buffers are used in order, so that only indices move (and, on
//! packed rings, flags). It costs a fraction of a general driver queue, so that the load is not the limit of what it measures.
//! A slot's buffer changes only if the device exchanges it, or if the load itself moves a frame from ring to ring.
//!
//! The ring is in our memory, shared with the device; both sides access it through atomics only.

use nf::memory::Buffers;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
use virtqueue::exchange::PACKED_LEN_BITS;
use virtqueue::memory::{Arena, Memory};
use virtqueue::ordering::{before_asking, consume, get, publish, put};
use virtqueue::{Format, QueueConfig, features};

/// Descriptor flag: the device may write (virtio 1.2 §2.7.5, §2.8.1).
const WRITE: u16 = 2;
/// Packed descriptor flags AVAIL and USED (§2.8.1).
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Split `flags` bit by which a side asks not to be notified (§2.7.7, §2.7.10).
const QUIET: u16 = 1;
/// Packed event suppression flags that disable notifications (§2.8.10).
const DISABLE: u32 = 1 << 16;

/// Error: the device used a buffer in a way that the load can't follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message says what the fields are.
pub enum Misused {
    #[error("the switch used buffer {id} when {expected} was next: the load needs buffers to be used in order")]
    OutOfOrder { id: u32, expected: u16 },
    #[error("the switch gave buffer {number} of the group, which does not exist")]
    NoBuffer { number: u16 },
}

/// One ring, driver side.
pub struct FixedRing {
    descriptors: NonNull<AtomicU64>,
    driver: NonNull<u8>,
    device: NonNull<u8>,
    format: Format,
    mask: u16,
    /// Length and flags of every descriptor, as the second word of a packed one without id, AVAIL and USED.
    tail: u64,
    /// Running counts: slots made available, and slots known to be used.
    avail: u64,
    used: u64,
    /// Split: the used index as last read.
    seen: u16,
    /// `avail` at the last check whether the device wants a kick.
    kicked: u64,
    /// The buffer in each slot.
    slots: Box<[u16]>,
    buffers: Arc<Buffers>,
    /// Whether the device may exchange buffers.
    exchanges: bool,
    /// Keeps the areas mapped.
    _memory: Arc<Memory>,
}

// SAFETY: the pointers are to a shared mapping that `_memory` keeps alive, which both sides access by atomics only, on any thread.
unsafe impl Send for FixedRing {}

impl FixedRing {
    /// Creates the ring described by `config`, with the buffers `slots` of `buffers` in its slots. Of each the device gets `len`
    /// bytes, writable if `writable`. The size must be a power of two.
    pub fn new(
        arena: &Arena,
        config: &QueueConfig,
        (buffers, slots): (&Arc<Buffers>, Box<[u16]>),
        len: u32,
        writable: bool,
    ) -> FixedRing {
        let (size, format) = (config.size, config.negotiated.format());
        assert!(
            size.is_power_of_two() && usize::from(size) == slots.len(),
            "a power of two, and a buffer for every slot"
        );
        let sizes = QueueConfig::area_sizes(format, size);
        let find = |addr, len| {
            let area = arena.host(addr, len).expect("the queue was laid out in this arena");
            assert!(area.as_ptr().addr().is_multiple_of(16), "areas are aligned");
            area
        };
        let flags = if writable { WRITE } else { 0 };
        let ring = FixedRing {
            descriptors: find(config.descriptors, sizes.descriptors).cast(),
            driver: find(config.driver, sizes.driver),
            device: find(config.device, sizes.device),
            format,
            mask: size - 1,
            tail: u64::from(len) | u64::from(flags) << 48,
            avail: 0,
            used: 0,
            seen: 0,
            kicked: 0,
            slots,
            buffers: buffers.clone(),
            exchanges: config.negotiated.has(features::EXCHANGE),
            _memory: arena.memory().clone(),
        };
        for slot in 0..size {
            put(ring.descriptor(slot, 0), ring.buffers.addr(ring.buffer(slot)));
            match format {
                Format::Packed => put(ring.descriptor(slot, 1), 0),
                Format::Split => {
                    put(ring.descriptor(slot, 1), u64::from(len) | u64::from(flags) << 32);
                    put(ring.driver_word(2 + slot), slot);
                }
            }
        }
        // Never request notifications: the load polls.
        match format {
            Format::Packed => put(ring.event(ring.driver), DISABLE),
            Format::Split => put(ring.driver_word(0), QUIET),
        }
        ring
    }

    /// Returns the buffers, one for each slot.
    #[inline(always)]
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Returns the number of the buffer in a slot.
    #[inline(always)]
    pub fn buffer(&self, slot: u16) -> u16 {
        self.slots[usize::from(slot)]
    }

    /// Puts another buffer into a slot of the driver's.
    #[inline(always)]
    pub fn set_buffer(&mut self, slot: u16, number: u16) {
        self.slots[usize::from(slot)] = number;
        put(self.descriptor(slot, 0), self.buffers.addr(number));
    }

    /// Takes back `count` slots, the last one of them with the buffer that the device gives for that there: `instead` is its number
    /// plus one, or zero if it gives none.
    #[inline(always)]
    fn take_back(&mut self, count: u64, instead: u16) -> Result<(), Misused> {
        if let Some(number) = instead.checked_sub(1) {
            if number >= self.buffers.count() {
                return Err(Misused::NoBuffer { number });
            }
            self.set_buffer((self.used + count - 1) as u16 & self.mask, number);
        }
        self.used += count;
        Ok(())
    }

    /// Returns the number of slots owned by the driver.
    #[inline(always)]
    pub fn free(&self) -> u64 {
        u64::from(self.mask) + 1 - (self.avail - self.used)
    }

    /// Returns the first `count` of the driver's slots, in the order in which they are made available to the device.
    #[inline(always)]
    pub fn slots(&self, count: u64) -> impl Iterator<Item = u16> + use<> {
        let mask = u64::from(self.mask);
        (self.avail..self.avail + count).map(move |at| (at & mask) as u16)
    }

    /// Returns the slot of a running count.
    #[inline(always)]
    pub fn slot(&self, at: u64) -> u16 {
        at as u16 & self.mask
    }

    /// Returns the running count of slots up to which it is known which buffers the driver will find there.
    #[inline(always)]
    pub fn known(&self) -> u64 {
        if self.exchanges { self.avail + self.free() } else { u64::MAX }
    }

    /// Takes back used slots until the driver owns `wanted` or there are no more; perhaps a few beyond.
    #[inline(always)]
    pub fn reap(&mut self, wanted: u64) -> Result<(), Misused> {
        match self.format {
            Format::Split => self.reap_split(wanted),
            Format::Packed => self.reap_packed(wanted),
        }
    }

    #[inline(always)]
    fn reap_split(&mut self, wanted: u64) -> Result<(), Misused> {
        let known = self.seen.wrapping_sub(self.used as u16);
        if self.free() + u64::from(known) < wanted {
            self.seen = consume(self.device_word(1));
        }
        while self.free() < wanted && self.seen != self.used as u16 {
            let slot = self.used as u16 & self.mask;
            let word = get(self.used_id(slot));
            let (id, instead) = if self.exchanges { (word & 0xffff, (word >> 16) as u16) } else { (word, 0) };
            // Compared, not used in a computation, so that the processor can run ahead of the load.
            let count = if id == u32::from(slot) { 1 } else { self.batch(id, slot)? };
            self.take_back(count, instead)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn reap_packed(&mut self, wanted: u64) -> Result<(), Misused> {
        while self.free() < wanted && self.used != self.avail {
            let slot = self.used as u16 & self.mask;
            let tail = consume(self.descriptor(slot, 1));
            // Used when both bits are as the lap's wrap counter, which starts at one.
            let both = if self.is_odd_lap(self.used) { 0 } else { AVAIL | USED };
            if (tail >> 48) as u16 & (AVAIL | USED) != both {
                break;
            }
            let id = (tail >> 32) as u16;
            let instead = if self.exchanges { tail as u32 >> PACKED_LEN_BITS } else { 0 };
            let count = if id == slot { 1 } else { self.batch(id.into(), slot)? };
            self.take_back(count, instead as u16)?;
        }
        Ok(())
    }

    /// Returns the number of slots covered by a used entry that names a later one (virtio 1.2 §2.7.9, §2.8.9).
    #[cold]
    fn batch(&self, id: u32, slot: u16) -> Result<u64, Misused> {
        let batch = u64::from((id as u16).wrapping_sub(slot) & self.mask) + 1;
        let known = match self.format {
            Format::Split => self.seen.wrapping_sub(self.used as u16).into(),
            Format::Packed => self.avail - self.used,
        };
        if id <= u32::from(self.mask) && batch <= known {
            Ok(batch)
        } else {
            Err(Misused::OutOfOrder { id, expected: slot })
        }
    }

    #[inline(always)]
    fn is_odd_lap(&self, at: u64) -> bool {
        at & (u64::from(self.mask) + 1) != 0
    }

    /// Makes the first `count` of the driver's slots available to the device; it sees them all at once.
    #[inline(always)]
    pub fn give(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        let first = self.avail;
        self.avail += count;
        match self.format {
            Format::Split => publish(self.driver_word(1), self.avail as u16),
            Format::Packed => {
                for at in first + 1..self.avail {
                    put(self.descriptor(at as u16 & self.mask, 1), self.packed_tail(at));
                }
                publish(self.descriptor(first as u16 & self.mask, 1), self.packed_tail(first));
            }
        }
    }

    /// Available when AVAIL is as the lap's wrap counter and USED is not. The id is the slot.
    #[inline(always)]
    fn packed_tail(&self, at: u64) -> u64 {
        let bit = if self.is_odd_lap(at) { USED } else { AVAIL };
        self.tail | u64::from(at as u16 & self.mask) << 32 | u64::from(bit) << 48
    }

    /// Reports whether the device wants a kick for the slots made available since the last call. Waits for all earlier stores,
    /// so do not call it for every burst.
    pub fn wants_kick(&mut self) -> bool {
        if self.kicked == self.avail {
            return false;
        }
        self.kicked = self.avail;
        before_asking();
        match self.format {
            Format::Split => get(self.device_word(0)) & QUIET == 0,
            Format::Packed => get(self.event(self.device)) & (3 << 16) != DISABLE,
        }
    }

    /// Returns a word of the descriptor in `slot`: 0 is the address, 1 the rest.
    #[inline(always)]
    fn descriptor(&self, slot: u16, word: usize) -> &AtomicU64 {
        debug_assert!(slot <= self.mask && word < 2);
        // SAFETY: the area is mapped for mask + 1 descriptors of two words, and aligned.
        unsafe { self.descriptors.add(usize::from(slot) * 2 + word).as_ref() }
    }

    /// Split: returns a word of the available ring: flags, index, entries.
    #[inline(always)]
    fn driver_word(&self, word: u16) -> &AtomicU16 {
        debug_assert!(self.format == Format::Split && word < self.mask + 3);
        // SAFETY: the area is mapped for two words and mask + 1 entries, and aligned.
        unsafe { self.driver.cast().add(usize::from(word)).as_ref() }
    }

    /// Split: returns one of the two words before the used ring: flags, index.
    #[inline(always)]
    fn device_word(&self, word: usize) -> &AtomicU16 {
        debug_assert!(self.format == Format::Split && word < 2);
        // SAFETY: the area begins with two words, and is aligned.
        unsafe { self.device.cast().add(word).as_ref() }
    }

    /// Split: returns the id in a used-ring element.
    #[inline(always)]
    fn used_id(&self, slot: u16) -> &AtomicU32 {
        debug_assert!(self.format == Format::Split && slot <= self.mask);
        // SAFETY: the area is mapped for four bytes and mask + 1 elements of eight, and aligned.
        unsafe { self.device.cast().add(1 + 2 * usize::from(slot)).as_ref() }
    }

    /// Packed: returns the event suppression structure of one side.
    fn event(&self, side: NonNull<u8>) -> &AtomicU32 {
        debug_assert!(self.format == Format::Packed);
        // SAFETY: either side's area is four bytes on a packed ring, and aligned.
        unsafe { side.cast().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::BurstStorage;
    use virtqueue::device::Dequeue;
    use virtqueue::driver::Queue;
    use virtqueue::{Negotiated, features};

    fn ring(features: u64) -> (FixedRing, Dequeue) {
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let config = Queue::layout(&mut arena, 8, Negotiated(features::VERSION_1 | features)).unwrap();
        Queue::new(&arena, &config).unwrap();
        let buffers = Arc::new(Buffers::allocate(&mut arena, 8, 256).unwrap());
        let ring = FixedRing::new(&arena, &config, (&buffers, (0..8).collect()), 100, false);
        let device = Dequeue::new(arena.memory().clone(), &config).unwrap();
        (ring, device)
    }

    #[test]
    fn it_goes_round_with_a_device() {
        for features in [0, features::RING_PACKED].map(|f| [f, f | features::IN_ORDER]).concat() {
            let (mut ring, device) = ring(features);
            let mut storage = BurstStorage::default();
            let mut next = 0u8;
            for round in 0..1000 {
                let count = [1, 8, 3, 5, 2][round % 5];
                ring.reap(count).unwrap();
                assert!(ring.free() >= count, "features {features:#x}");
                for slot in ring.slots(count) {
                    // SAFETY: the slot is ours, and no other reference is alive.
                    let bytes = unsafe { ring.buffers().bytes_mut(ring.buffer(slot)) };
                    bytes[12] = next;
                    next = next.wrapping_add(1);
                }
                ring.give(count);
                let mut burst = storage.start();
                device.receive(&mut burst).unwrap();
                let got: Vec<u8> =
                    burst.frames().as_slice().iter().map(|f| f.first().read::<1>().unwrap()[0]).collect();
                let sent: Vec<u8> = (0..count as u8).rev().map(|back| next.wrapping_sub(1 + back)).collect();
                assert_eq!(got, sent, "features {features:#x}");
                device.recycle();
            }
        }
    }

    #[test]
    fn a_buffer_out_of_order_is_refused() {
        let (mut ring, ..) = ring(0);
        ring.give(2);
        put(ring.used_id(0), 5);
        publish(ring.device_word(1), 1);
        assert_eq!(ring.reap(8), Err(Misused::OutOfOrder { id: 5, expected: 0 }));
    }

    #[test]
    fn one_entry_may_stand_for_a_batch() {
        let (mut ring, ..) = ring(features::IN_ORDER);
        ring.give(4);
        put(ring.used_id(0), 2);
        publish(ring.device_word(1), 3);
        ring.reap(8).unwrap();
        assert_eq!(ring.free(), 7, "three came back, one is left");
    }

    #[test]
    fn another_buffer_comes_back_with_the_last_of_a_batch() {
        let (mut ring, ..) = ring(features::IN_ORDER | features::EXCHANGE);
        ring.give(4);
        put(ring.used_id(0), 2 | 8 << 16);
        put(ring.used_id(3), 3 | 9 << 16);
        publish(ring.device_word(1), 3);
        ring.reap(8).unwrap();
        assert_eq!([0, 1, 2].map(|slot| ring.buffer(slot)), [0, 1, 7]);
        publish(ring.device_word(1), 4);
        assert_eq!(ring.reap(8), Err(Misused::NoBuffer { number: 8 }));
    }
}
