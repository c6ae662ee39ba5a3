//! Ports, forwarding and workers: the data path of Millrace.
//!
//! A [`Switch`] is started from a [`spec::Spec`], accepts a new one while it runs, and reports its counters as a
//! [`stats::Snapshot`].
//!
//! Modules; arrows point down:
//! - `switch`: the control side; owns the ports, builds plans, and hands them to workers;
//! - [`worker`]: pinned threads that run a plan to completion, round after round;
//! - [`forward`]: decides where a frame goes: patch, bridge, or a controller's flows;
//! - `stage`: what happens to frames between a port and forwarding, in which order;
//! - `aggregate`: stages that join and split packets at uplink ports;
//! - `tunnel`: stages that decapsulate and encapsulate VXLAN at such ports;
//! - `neighbour`: answers ARP and neighbour discovery for the switch's addresses there;
//! - [`port`]: where frames come from and go to.
#![deny(unsafe_code)]

mod aggregate;
mod clock;
pub mod counters;
pub mod drops;
pub mod forward;
mod handover;
mod live;
mod neighbour;
mod octets;
pub mod port;
mod punt;
mod queue_key;
pub mod reload;
pub mod spec;
mod stage;
pub mod stats;
mod switch;
mod tunnel;
pub mod worker;

pub use switch::{Error, Switch};
