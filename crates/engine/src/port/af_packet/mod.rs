//! AF_PACKET ports: interfaces of the kernel, by packet rings.

mod control;
mod rx;
mod spec;
mod tx;

pub use rx::{LongFrames, PacketReceive};
pub use spec::{KIND, Keys, Settings};
pub use tx::PacketTransmit;
