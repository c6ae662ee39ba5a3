//! `AF_PACKET` sockets with memory-mapped rings (kernel Documentation/networking/packet_mmap.rst).
//!
//! Both directions use `TPACKET_V2`, whose slots change hands frame by frame. Version 3 packs received frames more densely, but keeps each
//! for a millisecond or until its block is full, and its transmit ring has the same slots with a larger header. Receiving and transmitting
//! use one socket each: two workers can serve the two directions, and the transmit socket is bound to no protocol, so that the kernel
//! never hands it a received frame.

mod direct;
mod kernel;
mod layout;
mod left;
mod long;
mod outcome;
mod plain;
mod promiscuous;
mod ring_memory;
mod rx;
mod socket;
mod tx;
mod vlan;

pub use layout::{RxConfig, TxConfig};
pub use outcome::{Flushed, PushError};
pub use plain::packet_socket;
pub use promiscuous::Promiscuous;
pub use rx::{PacketRx, RxFrame, RxMonitor, RxStatistics};
pub use tx::{PacketTx, TxState};
pub use vlan::Vlan;
