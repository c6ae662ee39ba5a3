//! Errors by scope: one chain, one running queue, or the setup of a queue.

use crate::config::Format;

/// A guest's violation of the ring's own rules: nothing read from the ring can be trusted, so the queue stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the fields.
pub enum Fatal {
    #[error("the available index moved by {moved}, more than the queue size {size}")]
    IndexJump { moved: u16, size: u16 },
    #[error("the available ring names descriptor {head}, beyond the queue size {size}")]
    BadHead { head: u16, size: u16 },
    #[error("a descriptor chain names descriptor {next}, beyond the table size {size}")]
    BadNext { next: u16, size: u16 },
    #[error("a descriptor chain is longer than {size} descriptors, or a loop")]
    LongChain { size: u16 },
    #[error("an indirect descriptor table is nested, chained, empty, too long or not in guest memory")]
    BadIndirect,
    #[error("pages of the guest's memory vanished: its file shrank, or got a hole")]
    MemoryVanished,
}

/// Reason why a descriptor chain was returned without a frame, while the queue continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// A buffer is not in guest memory, or is a receive buffer that is not to be written to.
    BadBuffer,
    /// The chain is too short for the virtio header and a frame, or for the header alone on receive.
    Short,
    /// The frame is longer than [`packet::MAX_FRAME`].
    TooLong,
    /// The virtio header leaves work that it must not leave ([`packet::offload::Refused`]).
    BadOffload,
}

/// Reason why a queue cannot start as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SetupError {
    #[error("queue size {size} is not taken: at most {max}, and a power of two for split rings")]
    Size { size: u16, max: u16 },
    #[error("the {area} area at {addr:#x} ({len} bytes) is not in the memory that the guest shared")]
    Unmapped { area: &'static str, addr: u64, len: u64 },
    #[error("the {area} area at {addr:#x} is not aligned to {align} bytes")]
    Misaligned { area: &'static str, addr: u64, align: u64 },
    #[error("the base {base:#x} does not fit a {format} ring of size {size}")]
    Base { base: u32, format: Format, size: u16 },
    #[error("VIRTIO_F_VERSION_1 was not negotiated; legacy drivers are not supported")]
    Legacy,
}
