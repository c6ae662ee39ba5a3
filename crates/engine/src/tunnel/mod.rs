//! VXLAN tunnels that end at a port: behind it, everything is inside of VXLAN, and the switch sees frames without it. The
//! headers are paflow's; here is what joins them with bursts.
//!
//! - [`Encapsulate`] wraps the transmit half of such a port;
//! - [`Decapsulate`] is what a worker does with a burst of it before anything else.

mod decapsulate;
mod encapsulate;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use decapsulate::Decapsulate;
pub(crate) use encapsulate::Encapsulate;
