//! Descriptor chains of several buffers: the uncommon case, walked with every step checked.

use super::DropCounts;
use crate::MAX_CHAIN;
use crate::areas::Areas;
use crate::error::{Dropped, Fatal};
use crate::frame::{Burst, MAX_FRAME, MIN_FRAME, Segment};
use crate::layout::{DESC, F_INDIRECT, F_NEXT, F_WRITE, NET_HEADER, Tail};
use crate::memory::Memory;
use crate::ordering::get;
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// A run of guest bytes that is known to be mapped.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) ptr: *mut u8,
    pub(super) len: u32,
}

/// Direction of a chain's buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    /// Reports whether a descriptor with these flags has this direction.
    #[inline(always)]
    pub(super) fn allows(self, flags: u16) -> bool {
        (flags & F_WRITE != 0) == (self == Access::Write)
    }
}

/// The buffers of one chain, collected in order.
pub(super) struct Chain {
    pub(super) buffers: Vec<Buffer>,
    /// Descriptors read, including empty and bad ones.
    pub(super) descriptors: u32,
    /// All buffers are mapped and have the right direction.
    pub(super) good: bool,
}

impl Chain {
    pub(super) fn new() -> Chain {
        Chain { buffers: Vec::with_capacity(MAX_CHAIN.into()), descriptors: 0, good: true }
    }

    /// Returns the total length of all buffers.
    pub(super) fn len(&self) -> u64 {
        self.buffers.iter().map(|b| u64::from(b.len)).sum()
    }

    fn clear(&mut self) {
        self.buffers.clear();
        self.descriptors = 0;
        self.good = true;
    }

    fn add(&mut self, memory: &Memory, access: Access, addr: u64, len: u32, flags: u16) {
        self.descriptors += 1;
        if !access.allows(flags) {
            self.good = false;
        } else if len > 0 {
            match memory.translate(addr, len.into()) {
                Some(ptr) => self.buffers.push(Buffer { ptr: ptr.as_ptr(), len }),
                None => self.good = false,
            }
        }
    }

    /// Walks a split chain whose head holds `addr` and `tail` (virtio 1.2 §2.7.5).
    #[cold]
    pub(super) fn split(
        &mut self,
        memory: &Memory,
        areas: &Areas,
        access: Access,
        mut addr: u64,
        mut tail: Tail,
    ) -> Result<(), Fatal> {
        self.clear();
        let mut table = Table { base: areas.desc, size: areas.size };
        if tail.split_flags() & F_INDIRECT != 0 {
            if tail.split_flags() & F_NEXT != 0 {
                return Err(Fatal::BadIndirect);
            }
            table = Table::indirect(memory, addr, tail.len())?;
            (addr, tail) = table.read(0);
            if tail.split_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
        let longest = table.size.min(MAX_CHAIN);
        for _ in 0..longest {
            let flags = tail.split_flags();
            self.add(memory, access, addr, tail.len(), flags);
            if flags & F_NEXT == 0 {
                return Ok(());
            }
            let next = tail.split_next();
            if next >= table.size {
                return Err(Fatal::BadNext { next, size: table.size });
            }
            (addr, tail) = table.read(next);
            if tail.split_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
        Err(Fatal::LongChain { size: longest })
    }

    /// Walks a packed chain whose first descriptor, at `slot`, holds `addr` and `tail` (virtio 1.2 §2.8.6, §2.8.7).
    /// Returns the buffer id from its last descriptor and the number of slots that it takes.
    #[cold]
    pub(super) fn packed(
        &mut self,
        memory: &Memory,
        areas: &Areas,
        access: Access,
        slot: u16,
        mut addr: u64,
        mut tail: Tail,
    ) -> Result<(u16, u16), Fatal> {
        self.clear();
        let (mut slot, mut slots) = (slot, 1);
        if tail.packed_flags() & F_INDIRECT != 0 {
            if tail.packed_flags() & F_NEXT != 0 {
                return Err(Fatal::BadIndirect);
            }
            // In a packed table descriptors follow one another, and only the WRITE flag counts.
            let table = Table::indirect(memory, addr, tail.len())?;
            for i in 0..table.size {
                let (addr, tail) = table.read(i);
                self.add(memory, access, addr, tail.len(), tail.packed_flags());
            }
            return Ok((tail.packed_id(), 1));
        }
        loop {
            let flags = tail.packed_flags();
            self.add(memory, access, addr, tail.len(), flags);
            if flags & F_NEXT == 0 {
                return Ok((tail.packed_id(), slots));
            }
            let longest = areas.size.min(MAX_CHAIN);
            if slots == longest {
                return Err(Fatal::LongChain { size: longest });
            }
            slots += 1;
            slot = if slot + 1 == areas.size { 0 } else { slot + 1 };
            (addr, tail) = areas.descriptor(slot);
            if tail.packed_flags() & F_INDIRECT != 0 {
                return Err(Fatal::BadIndirect);
            }
        }
    }
}

/// A table of descriptors in guest memory: the queue's own or an indirect one.
struct Table {
    base: *mut u8,
    size: u16,
}

impl Table {
    fn indirect(memory: &Memory, addr: u64, len: u32) -> Result<Table, Fatal> {
        let size = len / DESC as u32;
        let fits = len.is_multiple_of(DESC as u32) && (1..=u32::from(MAX_CHAIN)).contains(&size);
        // Drivers may align a table as they like (§2.7.5.3 requires nothing); we read words, so we require 8 bytes.
        let base = memory.translate(addr, len.into()).filter(|p| fits && p.addr().get().is_multiple_of(8));
        Ok(Table { base: base.ok_or(Fatal::BadIndirect)?.as_ptr(), size: size as u16 })
    }

    fn read(&self, index: u16) -> (u64, Tail) {
        debug_assert!(index < self.size);
        // SAFETY: index < size, and the whole table is mapped and aligned to eight bytes.
        unsafe {
            let desc = self.base.add(usize::from(index) * DESC as usize).cast::<u64>();
            (get(AtomicU64::from_ptr(desc)), Tail(get(AtomicU64::from_ptr(desc.add(1)))))
        }
    }
}

impl Chain {
    /// Adds the chain to `burst` as a frame, without the virtio header at its front, or drops it and counts the reason.
    /// Returns false if the burst has no room for its segments, so that the chain has to wait for another burst.
    pub(super) fn push_frame(&self, burst: &mut Burst<'_, '_>, dropped: &Cell<DropCounts>) -> bool {
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
        let mut header = NET_HEADER;
        burst.push_segments(self.buffers.iter().filter_map(|b| {
            let skip = header.min(b.len);
            header -= skip;
            // SAFETY: `skip` is at most the buffer's length, and the buffer was checked to be mapped by a memory that
            // the queue holds, which the burst borrows.
            (skip < b.len).then(|| unsafe { Segment::new(b.ptr.add(skip as usize), b.len - skip) })
        }))
    }
}

/// Adds the frame in one run of bytes at `addr`, which starts with a virtio header, to `burst`; returns false if it
/// cannot be carried. A chain that can be kept has a `place` in the burst, and an id.
pub(super) fn push_long<'q>(
    memory: &'q Memory,
    burst: &mut Burst<'_, 'q>,
    (addr, len): (u64, u32),
    place: Option<(usize, u16)>,
) -> bool {
    let frame = len.wrapping_sub(NET_HEADER);
    let Some(ptr) = memory.translate(addr, len.into()).filter(|_| (MIN_FRAME..=MAX_FRAME).contains(&frame)) else {
        return false;
    };
    // SAFETY: the buffer was just checked to be mapped, by a memory that the burst borrows.
    let frame = unsafe { Segment::new(ptr.as_ptr().add(NET_HEADER as usize), frame) };
    match place {
        None => burst.push(frame),
        Some((place, id)) => burst.push_chain(frame, place, id),
    }
    true
}
