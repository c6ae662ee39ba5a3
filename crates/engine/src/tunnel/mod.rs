//! VXLAN tunnels that end at a port: all frames outside the port are VXLAN, and the switch sees the inner frames.
//! paflow builds and parses the headers; this module applies them to bursts.
//!
//! - [`Encapsulate`] wraps the transmit half of such a port;
//! - [`Decapsulate`] is the first step for a burst received by such a port.

mod decapsulate;
mod encapsulate;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use decapsulate::Decapsulate;
pub(crate) use encapsulate::Encapsulate;
