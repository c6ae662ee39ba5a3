//! The OpenFlow 1.3 channel: through it controllers set the flows of a bridge and of the aggregation table, send and receive
//! packets, and read ports and their counters.
//!
//! The `openflow` crate implements the protocol; this module adds sockets, clocks and access to the switch: `service` owns
//! sockets and threads, `seek` keeps a channel open to a controller, `channel` serves one, `agent` is shared by all of
//! them and knows the switch that they control.

mod agent;
mod channel;
mod complaints;
mod ports;
mod seek;
mod service;

pub use agent::SharedSwitch;
pub use service::Service;

#[cfg(test)]
mod tests;
