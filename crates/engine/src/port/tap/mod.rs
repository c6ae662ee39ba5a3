//! Tap ports: devices of the kernel that the switch creates.

mod control;
mod rx;
mod spec;
mod tx;

pub use rx::TapReceive;
pub use spec::{KIND, Keys, Settings};
pub use tx::TapTransmit;
