//! The kernel's packet interfaces: tap devices and `AF_PACKET` rings.
//!
//! Ground floor: this crate moves Ethernet frames between memory and the kernel and knows nothing of who owns that
//! memory. Everything that needs `unsafe` for these interfaces lives here.
//!
//! - [`Link`], [`Links`] and [`Monitor`]: how interfaces are, setting what a port needs (MTU, up), and hearing of changes,
//!   by netlink; [`ethtool`]: what only drivers tell.
//! - [`Tap`] and [`TapQueue`]: a tap device with one or more queues.
//! - [`PacketRx`]: a `TPACKET_V3` receive ring; frames are lent straight out of the ring until they are released.
//! - [`PacketTx`]: a `TPACKET_V2` transmit ring; a frame is gathered into its slot (one copy) and a burst goes out
//!   with one system call.
//! - [`Promiscuous`]: an interface receives frames for every address.
//!
//! Frames are written either from ordinary slices or from [`RawSegment`]s: pointer and length of memory that may be
//! shared with somebody hostile and so must never become a Rust reference.
//!
//! Sockets and devices are created in the network namespace of the calling thread and stay there.

mod error;
pub mod ethtool;
mod ifreq;
mod link;
mod packet;
mod segment;
mod tap;

pub use error::{Error, Result};
pub use link::{Event, Link, Links, Monitor};
pub use packet::{
    Flushed, PacketRx, PacketTx, Promiscuous, PushError, RxConfig, RxFrame, RxMonitor, RxStatistics, TxConfig, TxState,
    Vlan,
};
pub use segment::RawSegment;
pub use tap::{Tap, TapQueue, TapWrite};

/// Bytes of an Ethernet header without a VLAN tag: no frame is shorter.
pub const ETHERNET_HEADER: usize = 14;

/// Bytes that one VLAN tag adds.
pub const VLAN_TAG: usize = 4;
