//! NICs that a switch under test drives.

use crate::ring_format::RingFormat;

/// The NIC of the switch's first port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// A virtio device at the port's socket, with rings of this format.
    Virtio(RingFormat),
    /// DPDK's net_null, whose frames have this length.
    Null(u16),
}

/// DPDK's driver of [`Nic::Null`].
pub const NULL: &str = "net_null";

/// Returns its arguments. It touches no byte of a frame: with a NIC, that is the work of another processor.
pub fn null_arguments(size: u16) -> String {
    format!("size={size}")
}
