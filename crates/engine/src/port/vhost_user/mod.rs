//! vhost-user ports, device role: rings in guest memory, handed over by a session and driven by workers.

mod access;
mod common;
mod control;
mod queues;
mod rx;
mod spec;
#[cfg(test)]
mod tests;
mod tx;

pub use common::Call;
pub use queues::QueuesKey;
pub use rx::VhostReceive;
pub use spec::{HolesKey, KIND, Keys, MemoryKey, Settings};
pub use tx::VhostTransmit;
