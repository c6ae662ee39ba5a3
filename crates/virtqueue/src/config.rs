//! Negotiated features and layout of a queue.

use crate::layout;

/// Largest accepted queue size, in descriptors: virtio's own limit (virtio 1.2 §2.7, §2.8.10.1).
pub const MAX_QUEUE_SIZE: u16 = 1 << 15;

/// Longest accepted descriptor chain. Virtio allows the queue size; no driver exceeds QEMU's limit.
pub const MAX_CHAIN: u16 = 1024;

const _: () = assert!(MAX_CHAIN as usize <= packet::MAX_SEGMENTS, "any accepted chain fits into an empty burst");

/// virtio feature bits that this crate knows, as masks (virtio 1.2 §5.1.3 and §6).
pub mod features {
    /// Driver can merge receive buffers (§5.1.6.4).
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// Device tells the driver its MTU (§5.1.4.1).
    pub const MTU: u64 = 1 << 3;
    /// Device has several queue pairs.
    pub const MQ: u64 = 1 << 22;
    /// Control channel.
    pub const CTRL_VQ: u64 = 1 << 17;
    /// Device has a MAC address.
    pub const MAC: u64 = 1 << 5;
    /// Link status in the configuration space.
    pub const STATUS: u64 = 1 << 16;
    /// Driver can send gratuitous packets.
    pub const GUEST_ANNOUNCE: u64 = 1 << 21;
    /// Descriptors may point to tables of descriptors (§2.7.5.3).
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Notification suppression by index (§2.7.7, §2.7.10).
    pub const EVENT_IDX: u64 = 1 << 29;
    /// vhost-user: protocol features can be negotiated. Not a virtio bit.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    /// virtio 1.0 or later.
    pub const VERSION_1: u64 = 1 << 32;
    /// Packed ring (§2.8).
    pub const RING_PACKED: u64 = 1 << 34;
    /// The device uses buffers in the order in which they were made available (§2.7.9, §2.8.9).
    pub const IN_ORDER: u64 = 1 << 35;
    /// The device may return other buffers of a group than those that were made available ([`crate::exchange`]). Millrace's own, in
    /// the range that virtio reserves for extensions (§2.2).
    pub const EXCHANGE: u64 = 1 << 49;
}

/// Ring format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Descriptor table, available ring and used ring (virtio 1.2 §2.7).
    Split,
    /// One ring that both sides write (§2.8).
    Packed,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Split => "split",
            Format::Packed => "packed",
        })
    }
}

/// Order in which a device returns chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// The order in which it took them (VIRTIO_F_IN_ORDER).
    InOrder,
    /// Any order.
    AnyOrder,
}

/// Negotiated features, as far as they concern rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated(pub u64);

impl Negotiated {
    /// Reports whether all bits of `mask` were negotiated.
    pub fn has(self, mask: u64) -> bool {
        self.0 & mask == mask
    }

    /// Ring format.
    pub fn format(self) -> Format {
        if self.has(features::RING_PACKED) { Format::Packed } else { Format::Split }
    }

    /// Returns the order in which the device returns chains.
    pub(crate) fn returns(self) -> Returns {
        if self.has(features::IN_ORDER) { Returns::InOrder } else { Returns::AnyOrder }
    }
}

/// Guest addresses of a queue's three areas, and its starting position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Number of descriptors: 1..=[`MAX_QUEUE_SIZE`]; a power of two for split rings.
    pub size: u16,
    /// Descriptor table (split) or descriptor ring (packed).
    pub descriptors: u64,
    /// Available ring (split) or driver event suppression (packed).
    pub driver: u64,
    /// Used ring (split) or device event suppression (packed).
    pub device: u64,
    /// Starting position, as in vhost-user's SET_VRING_BASE. Split: the next available index. Packed: the next
    /// available slot in bits 0..=14, its wrap counter in bit 15, and the same for the used side in bits 16..=31.
    pub base: u32,
    /// Negotiated features.
    pub negotiated: Negotiated,
}

impl QueueConfig {
    /// Returns the base of an unused queue: packed wrap counters start at one (virtio 1.2 §2.8.1).
    pub fn initial_base(format: Format) -> u32 {
        match format {
            Format::Split => 0,
            Format::Packed => 0x8000_8000,
        }
    }

    /// Returns the sizes of the areas of a queue with `size` descriptors.
    pub fn area_sizes(format: Format, size: u16) -> AreaSizes {
        let n = u64::from(size);
        let descriptors = n * layout::DESC;
        match format {
            Format::Split => AreaSizes { descriptors, driver: 6 + n * 2, device: 6 + n * layout::USED_ELEM },
            Format::Packed => AreaSizes { descriptors, driver: 4, device: 4 },
        }
    }
}

/// Sizes of a queue's three areas in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSizes {
    /// Descriptor table (split) or ring (packed).
    pub descriptors: u64,
    /// Available ring (split) or driver event suppression (packed).
    pub driver: u64,
    /// Used ring (split) or device event suppression (packed).
    pub device: u64,
}

impl AreaSizes {
    /// Returns the size of all of them.
    pub fn sum(self) -> u64 {
        self.descriptors + self.driver + self.device
    }
}
