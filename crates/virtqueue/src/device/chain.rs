//! Descriptor chains of several buffers: the uncommon case, walked with every step checked.

use super::DropCounts;
use super::left::{copy, left_by};
use super::taken::TakenChain;
use crate::MAX_CHAIN;
use crate::areas::Areas;
use crate::error::{Dropped, Fatal};
use crate::layout::{DESC, Descriptor, F_INDIRECT, F_NEXT, F_WRITE, NET_HEADER, Tail};
use crate::memory::Memory;
use crate::ordering::get;
use packet::offload::{Offload, Offloads};
use packet::{Burst, MAX_FRAME, MIN_FRAME, Origin, Segment};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// A run of guest bytes that is known to be mapped.
#[derive(Clone, Copy)]
pub(super) struct MappedBuffer {
    pub(super) ptr: *mut u8,
    pub(super) len: u32,
}

// SAFETY: it only names guest memory, which any thread may access; code that follows the pointer keeps the memory mapped.
unsafe impl Send for MappedBuffer {}

/// The flags of a descriptor that tell what it is.
pub(super) const KIND: u16 = F_NEXT | F_WRITE | F_INDIRECT;

/// Direction of a chain's buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    /// Reports whether the device may access a buffer with these flags. It must not write to one that is to be read, but may read
    /// one that is to be written (virtio 1.2 §2.7.5.1): DPDK sends frames in such, as the first entry of its packed rings'
    /// indirect tables carries the flag.
    #[inline(always)]
    fn allows(self, flags: u16) -> bool {
        self == Access::Read || flags & F_WRITE != 0
    }

    /// Returns the flags of a first descriptor that is a whole chain, in one buffer of this direction, among [`KIND`].
    #[inline(always)]
    pub(super) fn single(self) -> u16 {
        if self == Access::Write { F_WRITE } else { 0 }
    }
}

/// A chain and its buffers, collected in order.
pub(super) struct WalkedChain {
    pub(super) chain: TakenChain,
    pub(super) buffers: Vec<MappedBuffer>,
    /// Descriptors read, including empty and bad ones.
    pub(super) descriptors: u32,
    /// All buffers are mapped and have the right direction.
    pub(super) good: bool,
}

impl WalkedChain {
    pub(super) fn new() -> WalkedChain {
        let buffers = Vec::with_capacity(MAX_CHAIN.into());
        WalkedChain { chain: TakenChain::NONE, buffers, descriptors: 0, good: true }
    }

    /// Returns the total length of all buffers.
    fn len(&self) -> u64 {
        self.buffers.iter().map(|b| u64::from(b.len)).sum()
    }

    fn clear(&mut self) {
        self.buffers.clear();
        self.descriptors = 0;
        self.good = true;
    }

    fn add(&mut self, memory: &Memory, access: Access, buffer: Descriptor, flags: u16) {
        self.descriptors += 1;
        let len = buffer.tail.len();
        if !access.allows(flags) {
            self.good = false;
        } else if len > 0 {
            match memory.translate(buffer.addr, len.into()) {
                Some(ptr) => self.buffers.push(MappedBuffer { ptr: ptr.as_ptr(), len }),
                None => self.good = false,
            }
        }
    }

    /// Walks the split chain that starts with `first` at `index` (virtio 1.2 §2.7.5).
    #[cold]
    pub(super) fn split(&mut self, areas: &Areas, access: Access, index: u16, first: Descriptor) -> Result<(), Fatal> {
        self.clear();
        self.chain = TakenChain { id: index, slots: 1 };
        let memory = &*areas.memory;
        let mut table = Table { base: areas.desc, size: areas.size };
        let mut descriptor = first;
        if descriptor.tail.split_flags() & F_INDIRECT != 0 {
            if descriptor.tail.split_flags() & F_NEXT != 0 {
                return Err(Fatal::BadIndirect);
            }
            table = Table::indirect(memory, descriptor)?;
            descriptor = table.read(0);
            if descriptor.tail.split_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
        let longest = table.size.min(MAX_CHAIN);
        for _ in 0..longest {
            let flags = descriptor.tail.split_flags();
            self.add(memory, access, descriptor, flags);
            if flags & F_NEXT == 0 {
                return Ok(());
            }
            let next = descriptor.tail.split_next();
            if next >= table.size {
                return Err(Fatal::BadNext { next, size: table.size });
            }
            descriptor = table.read(next);
            if descriptor.tail.split_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
        Err(Fatal::LongChain { size: longest })
    }

    /// Walks the packed chain that starts with `first` at slot `index` (virtio 1.2 §2.8.6, §2.8.7). Its last descriptor
    /// holds the buffer id.
    #[cold]
    pub(super) fn packed(&mut self, areas: &Areas, access: Access, index: u16, first: Descriptor) -> Result<(), Fatal> {
        self.clear();
        let memory = &*areas.memory;
        let (mut slot, mut slots) = (index, 1);
        let mut descriptor = first;
        if descriptor.tail.packed_flags() & F_INDIRECT != 0 {
            if descriptor.tail.packed_flags() & F_NEXT != 0 {
                return Err(Fatal::BadIndirect);
            }
            // In a packed table descriptors follow one another, and only the WRITE flag counts.
            let table = Table::indirect(memory, descriptor)?;
            for i in 0..table.size {
                let entry = table.read(i);
                self.add(memory, access, entry, entry.tail.packed_flags());
            }
            self.chain = TakenChain { id: descriptor.tail.packed_id(), slots };
            return Ok(());
        }
        loop {
            let flags = descriptor.tail.packed_flags();
            self.add(memory, access, descriptor, flags);
            if flags & F_NEXT == 0 {
                self.chain = TakenChain { id: descriptor.tail.packed_id(), slots };
                return Ok(());
            }
            let longest = areas.size.min(MAX_CHAIN);
            if slots == longest {
                return Err(Fatal::LongChain { size: longest });
            }
            slots += 1;
            slot = if slot + 1 == areas.size { 0 } else { slot + 1 };
            descriptor = areas.descriptor(slot);
            if descriptor.tail.packed_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
    }

    /// Adds the chain to `burst` as a frame, without the virtio header at its front, or drops it and counts the reason.
    /// Returns false if the burst has no room for its segments, so that the chain has to wait for another burst.
    pub(super) fn push_frame(&self, burst: &mut Burst<'_, '_>, dropped: &Cell<DropCounts>, allowed: Offloads) -> bool {
        let len = self.len();
        let reason = if !self.good {
            Some(Dropped::BadBuffer)
        } else if len < u64::from(NET_HEADER + MIN_FRAME) {
            Some(Dropped::Short)
        } else if len > u64::from(NET_HEADER + MAX_FRAME) {
            Some(Dropped::TooLong)
        } else {
            None
        };
        if let Some(reason) = reason {
            DropCounts::count(dropped, reason);
            return true;
        }
        let offload = if allowed.is_none() { Some(Offload::NONE) } else { self.offload(allowed) };
        let Some(offload) = offload else {
            DropCounts::count(dropped, Dropped::BadOffload);
            return true;
        };
        let added = burst.push_segments_from(self.behind(NET_HEADER), Origin::SPREAD);
        if added && !offload.is_none() {
            burst.leave(offload);
        }
        added
    }

    /// Returns the work that the header leaves. `None` if it must not.
    #[cold]
    fn offload(&self, allowed: Offloads) -> Option<Offload> {
        let mut header = [0; NET_HEADER as usize];
        copy(self.behind(0), &mut header);
        left_by(header, allowed, self.len() as u32 - NET_HEADER, |head| copy(self.behind(NET_HEADER), head))
    }

    /// Returns the bytes of all buffers, without the first ones. They live for any `'q` that borrows from the queue.
    fn behind<'q>(&self, mut skipped: u32) -> impl Iterator<Item = Segment<'q>> + use<'_, 'q> {
        self.buffers.iter().filter_map(move |b| {
            let skip = skipped.min(b.len);
            skipped -= skip;
            // SAFETY: `skip` is at most the buffer's length, and the buffer was checked to be mapped by a memory that
            // the queue holds, which the burst borrows.
            (skip < b.len).then(|| unsafe { Segment::new(b.ptr.add(skip as usize), b.len - skip) })
        })
    }
}

/// A table of descriptors in guest memory: the queue's own or an indirect one.
struct Table {
    base: *mut u8,
    size: u16,
}

impl Table {
    /// Returns the table that `descriptor` points to.
    fn indirect(memory: &Memory, descriptor: Descriptor) -> Result<Table, Fatal> {
        let (addr, len) = (descriptor.addr, descriptor.tail.len());
        let size = len / DESC as u32;
        let fits = len.is_multiple_of(DESC as u32) && (1..=u32::from(MAX_CHAIN)).contains(&size);
        // Drivers may align a table as they like (§2.7.5.3 requires nothing); we read words, so we require 8 bytes.
        let base = memory.translate(addr, len.into()).filter(|p| fits && p.addr().get().is_multiple_of(8));
        Ok(Table { base: base.ok_or(Fatal::BadIndirect)?.as_ptr(), size: size as u16 })
    }

    fn read(&self, index: u16) -> Descriptor {
        debug_assert!(index < self.size);
        // SAFETY: index < size, and the whole table is mapped and aligned to eight bytes.
        unsafe {
            let desc = self.base.add(usize::from(index) * DESC as usize).cast::<u64>();
            let (addr, tail) = (AtomicU64::from_ptr(desc), AtomicU64::from_ptr(desc.add(1)));
            Descriptor { addr: get(addr), tail: Tail(get(tail)) }
        }
    }
}
