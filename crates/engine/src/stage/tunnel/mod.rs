//! VXLAN tunnels that end at a port: all frames outside the port are VXLAN, and the switch sees the inner frames.
//! paflow builds and parses the headers; this module applies them to bursts.
//!
//! - [`Decapsulate`] is a stage of such a port's ingress;
//! - [`Encapsulate`] is a stage of its egress.

mod decapsulate;
mod encapsulate;
#[cfg(test)]
mod tests;

pub(crate) use decapsulate::Decapsulate;
pub(crate) use encapsulate::Encapsulate;
