//! The kernel's packet interfaces: tap devices and `AF_PACKET` rings.
//!
//! The bottom layer: this crate moves Ethernet frames between memory and the kernel and knows nothing about the owner of that
//! memory. All `unsafe` code for these interfaces is here.
//!
//! - [`Link`], [`Links`] and [`Monitor`]: interface state, settings that a port needs (MTU, up), and notifications of
//!   changes, by netlink; [`ethtool`]: information that only drivers have.
//! - [`Tap`] and [`TapQueue`]: a tap device with one or more queues.
//! - [`PacketRx`]: a receive ring; it lends frames in place until they are released.
//! - [`PacketTx`]: a `TPACKET_V2` transmit ring; it gathers a frame into its slot (one copy) and sends a burst with one
//!   system call.
//! - [`packet_socket`] and [`Messages`]: frames, or other messages of a socket, by system calls.
//! - [`Promiscuous`]: promiscuous mode of an interface.
//!
//! Frames are written either from ordinary slices or from [`RawSegment`]s: pointer and length of memory that may be shared
//! with a hostile process and so must never become a Rust reference.
//!
//! Sockets and devices are created in the network namespace of the calling thread. Sockets stay there; a tap device keeps
//! working when others move it into another one.

mod af_packet;
mod error;
pub mod ethtool;
mod ifreq;
mod link;
mod messages;
mod segment;
mod tap;

pub use af_packet::{
    Flushed, PacketRx, PacketTx, Promiscuous, PushError, RxConfig, RxFrame, RxMonitor, RxStatistics, TxConfig, TxState,
    Vlan, packet_socket,
};
pub use error::{Error, Result};
pub use link::{Event, Link, Links, Monitor};
pub use messages::Messages;
pub use segment::RawSegment;
pub use tap::{Tap, TapQueue, TapWrite};
