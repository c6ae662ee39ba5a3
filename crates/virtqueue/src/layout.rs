//! Sizes and flag bits of rings in guest memory (virtio 1.2 §2.7, §2.8, §5.1.6).

/// Size of the `virtio_net_hdr` in front of every frame, in bytes; constant with VERSION_1.
pub const NET_HEADER: u32 = 12;

/// Size of a descriptor, split or packed.
pub(crate) const DESC: u64 = 16;
/// Size of a used-ring element.
pub(crate) const USED_ELEM: u64 = 8;

/// Descriptor flag: the chain continues in another descriptor.
pub(crate) const F_NEXT: u16 = 1;
/// Descriptor flag: the buffer is write-only for the device.
pub(crate) const F_WRITE: u16 = 2;
/// Descriptor flag: the buffer is a table of descriptors.
pub(crate) const F_INDIRECT: u16 = 4;
/// Packed descriptor flag: see [`packed_available_bits`].
pub(crate) const F_AVAIL: u16 = 1 << 7;
/// Packed descriptor flag: see [`packed_available_bits`].
pub(crate) const F_USED: u16 = 1 << 15;

/// Split: `avail.flags` bit by which the driver, without EVENT_IDX, asks for no interrupts.
pub(crate) const AVAIL_NO_INTERRUPT: u16 = 1;
/// Split: `used.flags` bit by which the device, without EVENT_IDX, asks for no kicks.
pub(crate) const USED_NO_NOTIFY: u16 = 1;

/// Packed event suppression flags (§2.8.10).
pub(crate) mod event {
    pub(crate) const ENABLE: u16 = 0;
    pub(crate) const DISABLE: u16 = 1;
    pub(crate) const DESC: u16 = 2;
}

/// A descriptor, split or packed, as read from the ring.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    /// Guest address of the buffer.
    pub(crate) addr: u64,
    pub(crate) tail: Tail,
}

/// Second half of a descriptor as one little-endian word. Split: length, flags, next. Packed: length, id, flags.
#[derive(Clone, Copy)]
pub(crate) struct Tail(pub(crate) u64);

impl Tail {
    pub(crate) fn split(len: u32, flags: u16, next: u16) -> Tail {
        Tail(u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48)
    }

    pub(crate) fn packed(len: u32, id: u16, flags: u16) -> Tail {
        Tail(u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48)
    }

    #[inline(always)]
    pub(crate) fn len(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(crate) fn split_flags(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    pub(crate) fn split_next(self) -> u16 {
        (self.0 >> 48) as u16
    }

    #[inline(always)]
    pub(crate) fn packed_id(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    pub(crate) fn packed_flags(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns the flags that tell whether a packed descriptor is available or used, to be compared with
    /// [`packed_available_bits`] or [`packed_used_bits`] of a lap.
    #[inline(always)]
    pub(crate) fn packed_state(self) -> u16 {
        self.packed_flags() & (F_AVAIL | F_USED)
    }
}

/// Returns the bits that make a packed descriptor available in a lap with this wrap counter: AVAIL equals the counter and
/// USED does not (§2.8.1).
#[inline(always)]
pub(crate) fn packed_available_bits(wrap: bool) -> u16 {
    if wrap { F_AVAIL } else { F_USED }
}

/// Returns the bits that make a packed descriptor used in a lap with this wrap counter: both equal the counter (§2.8.1).
#[inline(always)]
pub(crate) fn packed_used_bits(wrap: bool) -> u16 {
    if wrap { F_AVAIL | F_USED } else { 0 }
}
