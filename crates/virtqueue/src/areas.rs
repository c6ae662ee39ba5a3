//! The three areas of a queue: located and checked once, then accessed by raw pointer.

use crate::config::{Format, MAX_QUEUE_SIZE, QueueConfig, features};
use crate::error::SetupError;
use crate::layout::{DESC, Descriptor, Tail};
use crate::memory::Memory;
use crate::ordering::{consume, get};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// A descriptor's place in guest memory.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) addr: AtomicU64,
    pub(crate) tail: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == DESC as usize);

impl Slot {
    /// Reads a packed descriptor, with what was written before it became available.
    #[inline(always)]
    pub(crate) fn consume(&self) -> Descriptor {
        let tail = Tail(consume(&self.tail));
        Descriptor { addr: get(&self.addr), tail }
    }
}

/// Host addresses of a queue's areas. Accessors check their index in debug builds only: callers mask or compare it.
pub(crate) struct Areas {
    pub(crate) desc: *mut u8,
    driver: *mut u8,
    device: *mut u8,
    pub(crate) size: u16,
    format: Format,
    /// Keeps the areas mapped.
    pub(crate) memory: Arc<Memory>,
}

// SAFETY: raw pointers into shared memory that `memory` keeps mapped; any thread may use them.
unsafe impl Send for Areas {}

impl Areas {
    pub(crate) fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Areas, SetupError> {
        let (size, format) = (config.size, config.negotiated.format());
        let fits = (1..=MAX_QUEUE_SIZE).contains(&size) && (format == Format::Packed || size.is_power_of_two());
        if !fits {
            return Err(SetupError::Size { size, max: MAX_QUEUE_SIZE });
        }
        if !config.negotiated.has(features::VERSION_1) {
            return Err(SetupError::Legacy);
        }
        let find = |area, addr, len, align: u64| {
            let ptr = memory.translate(addr, len).ok_or(SetupError::Unmapped { area, addr, len })?;
            if (ptr.as_ptr() as u64).is_multiple_of(align) {
                Ok(ptr.as_ptr())
            } else {
                Err(SetupError::Misaligned { area, addr, align })
            }
        };
        let sizes = QueueConfig::area_sizes(format, size);
        // Alignments required by virtio 1.2 §2.7 and §2.8.
        let (driver_align, device_align) = if format == Format::Split { (2, 4) } else { (4, 4) };
        let desc = find("descriptor", config.descriptors, sizes.descriptors, 16)?;
        let driver = find("driver", config.driver, sizes.driver, driver_align)?;
        let device = find("device", config.device, sizes.device, device_align)?;
        Ok(Areas { desc, driver, device, size, format, memory })
    }

    /// Returns the descriptor at `index`. Reads each word once.
    #[inline(always)]
    pub(crate) fn descriptor(&self, index: u16) -> Descriptor {
        let slot = self.slot(index);
        Descriptor { addr: get(&slot.addr), tail: Tail(get(&slot.tail)) }
    }

    #[inline(always)]
    pub(crate) fn addr(&self, index: u16) -> &AtomicU64 {
        &self.slot(index).addr
    }

    #[inline(always)]
    pub(crate) fn tail(&self, index: u16) -> &AtomicU64 {
        &self.slot(index).tail
    }

    /// Returns the slot at `index`.
    #[inline(always)]
    pub(crate) fn slot(&self, index: u16) -> &Slot {
        &self.slots(index, 1)[0]
    }

    /// Returns `count` slots from `start` on, within the ring.
    #[inline(always)]
    pub(crate) fn slots(&self, start: u16, count: u16) -> &[Slot] {
        debug_assert!(usize::from(start) + usize::from(count) <= self.size.into());
        // SAFETY: the descriptor area is mapped for `size` descriptors and aligned to 16 bytes. Others change it only as atomics
        // may be changed.
        unsafe { slice::from_raw_parts(self.desc.cast::<Slot>().add(start.into()), count.into()) }
    }

    #[inline(always)]
    fn driver_u16(&self, index: usize) -> &AtomicU16 {
        debug_assert!(self.format == Format::Split && index < usize::from(self.size) + 3);
        // SAFETY: the split driver area is mapped for size + 3 words and aligned to two bytes.
        unsafe { AtomicU16::from_ptr(self.driver.cast::<u16>().add(index)) }
    }

    /// Split: flags of the available ring.
    #[inline(always)]
    pub(crate) fn avail_flags(&self) -> &AtomicU16 {
        self.driver_u16(0)
    }

    /// Split: index of the available ring.
    #[inline(always)]
    pub(crate) fn avail_idx(&self) -> &AtomicU16 {
        self.driver_u16(1)
    }

    /// Split: entry of the available ring, `slot` < size.
    #[inline(always)]
    pub(crate) fn avail_entry(&self, slot: u16) -> &AtomicU16 {
        self.driver_u16(2 + usize::from(slot))
    }

    /// Split: `count` entries of the available ring from `start` on, within the ring.
    #[inline(always)]
    pub(crate) fn avail_entries(&self, start: u16, count: u16) -> &[AtomicU16] {
        debug_assert!(usize::from(start) + usize::from(count) <= self.size.into());
        // SAFETY: as in `driver_u16`, after the flags and the index. Others change it only as atomics may be changed.
        unsafe { slice::from_raw_parts(self.driver.cast::<AtomicU16>().add(2 + usize::from(start)), count.into()) }
    }

    /// Split: used-ring index at which the driver wants to be interrupted.
    pub(crate) fn used_event(&self) -> &AtomicU16 {
        self.driver_u16(2 + usize::from(self.size))
    }

    #[inline(always)]
    fn device_u16(&self, index: usize) -> &AtomicU16 {
        debug_assert!(self.format == Format::Split);
        // SAFETY: the split device area holds two words, `size` elements of 8 bytes and one word, and is aligned to
        // four bytes; only these offsets are used.
        unsafe { AtomicU16::from_ptr(self.device.cast::<u16>().add(index)) }
    }

    /// Split: flags of the used ring.
    pub(crate) fn used_flags(&self) -> &AtomicU16 {
        self.device_u16(0)
    }

    /// Split: index of the used ring.
    #[inline(always)]
    pub(crate) fn used_idx(&self) -> &AtomicU16 {
        self.device_u16(1)
    }

    /// Split: id and length of a used-ring element, `slot` < size. Two words, as only four-byte alignment is guaranteed.
    #[inline(always)]
    pub(crate) fn used_element(&self, slot: u16) -> (&AtomicU32, &AtomicU32) {
        debug_assert!(self.format == Format::Split && slot < self.size);
        // SAFETY: the device area is mapped for 4 + 8 * size bytes and aligned to four.
        unsafe {
            let element = self.device.cast::<u32>().add(1 + 2 * usize::from(slot));
            (AtomicU32::from_ptr(element), AtomicU32::from_ptr(element.add(1)))
        }
    }

    /// Split: available-ring index at which the device wants to be kicked.
    pub(crate) fn avail_event(&self) -> &AtomicU16 {
        self.device_u16(2 + 4 * usize::from(self.size))
    }

    /// Packed: the driver's event suppression; offset and wrap in the low half, flags in the high half (§2.8.10).
    pub(crate) fn driver_event(&self) -> &AtomicU32 {
        debug_assert!(self.format == Format::Packed);
        // SAFETY: the packed driver area is mapped for four bytes and aligned to four.
        unsafe { AtomicU32::from_ptr(self.driver.cast()) }
    }

    /// Packed: the device's event suppression.
    pub(crate) fn device_event(&self) -> &AtomicU32 {
        debug_assert!(self.format == Format::Packed);
        // SAFETY: the packed device area is mapped for four bytes and aligned to four.
        unsafe { AtomicU32::from_ptr(self.device.cast()) }
    }
}
