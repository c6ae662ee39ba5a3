//! `AF_PACKET` sockets with memory-mapped rings (kernel Documentation/networking/packet_mmap.rst).
//!
//! Receiving and transmitting use one socket each, because a socket has one ring format and the best one differs.
//! Receiving uses `TPACKET_V3`: frames of any size lie densely in blocks, and a block changes hands with one word.
//! Transmitting uses `TPACKET_V2`: in version 3 the transmit ring has the same fixed slots, but with a larger header
//! and no gain. Two sockets also let two workers serve the two directions, and the transmit socket is bound to no
//! protocol, so that the kernel never hands it a received frame.

mod kernel;
mod layout;
mod left;
mod plain;
mod promiscuous;
mod ring_memory;
mod rx;
mod socket;
mod tx;
mod vlan;

pub use layout::{RxConfig, TxConfig};
pub use plain::packet_socket;
pub use promiscuous::Promiscuous;
pub use rx::{PacketRx, RxFrame, RxMonitor, RxStatistics};
pub use tx::{Flushed, PacketTx, PushError, TxState};
pub use vlan::Vlan;
