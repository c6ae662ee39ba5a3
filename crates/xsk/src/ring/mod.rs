//! The rings shared with the kernel (`struct xdp_ring` of net/xdp/xsk_queue.h): a producer index and a consumer index,
//! both counting up forever, and a power of two of entries.

mod consumer;
#[cfg(any(test, feature = "analysis"))]
mod fake;
mod map;
mod mapping;
mod ordering;
mod parts;
mod producer;

pub(crate) use consumer::Consumer;
pub use consumer::RingBurst;
#[cfg(feature = "analysis")]
pub(crate) use fake::FakeRing;
pub(crate) use map::map;
pub(crate) use producer::Producer;

/// A frame, or a part of one, in the receive and transmit rings (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Address of the bytes. For a received frame, [`crate::Umem::frame_address`] gives the first byte.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// `XDP_PKT_CONTD` and the like.
    pub options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == size_of::<libc::xdp_desc>());
const _: () = assert!(align_of::<Descriptor>() == align_of::<libc::xdp_desc>());

impl Descriptor {
    /// Returns the descriptor of a whole frame.
    pub const fn new(address: u64, len: u32) -> Self {
        Self { address, len, options: 0 }
    }

    /// Returns the same descriptor, marked as continued in the next one.
    #[must_use]
    pub const fn continued(self) -> Self {
        Self { options: self.options | libc::XDP_PKT_CONTD, ..self }
    }

    /// Reports whether another part of the frame follows in the next descriptor.
    pub const fn more(&self) -> bool {
        self.options & libc::XDP_PKT_CONTD != 0
    }
}
