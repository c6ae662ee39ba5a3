//! vhost-user ports, device role: rings in guest memory, handed over by a session and driven by workers.

mod common;
mod control;
mod rx;
mod spec;
mod tx;

pub use common::Call;
pub use rx::VhostReceive;
pub use spec::{KIND, Settings};
pub use tx::VhostTransmit;
