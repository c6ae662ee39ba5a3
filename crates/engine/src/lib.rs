//! Ports, forwarding and workers: the data path of Millrace.
//!
//! From the outside: a [`Switch`] is started from a [`spec::Spec`], can be given another one while it runs, and tells
//! what it counts as a [`stats::Snapshot`].
//!
//! Inside, arrows point down:
//! - `switch`: the control side; owns the ports, builds plans, hands them to workers;
//! - `aggregate`: joins and splits packets at ports towards the network;
//! - `tunnel`: takes frames out of VXLAN at such ports, and puts them in;
//! - `neighbour`: answers who asks for the switch's addresses there;
//! - [`worker`]: pinned threads that run a plan to completion, round after round;
//! - [`forward`]: where a frame goes: patch, bridge, flows of a controller;
//! - [`port`]: where frames come from and go to.
#![deny(unsafe_code)]

mod aggregate;
mod clock;
pub mod counters;
pub mod drops;
pub mod forward;
mod handover;
mod neighbour;
mod octets;
pub mod port;
mod punt;
pub mod reload;
pub mod spec;
pub mod stats;
mod switch;
mod tunnel;
pub mod worker;

pub use switch::{Error, Switch};
