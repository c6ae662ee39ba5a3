//! Ports, forwarding and workers: the data path of Millrace.
//!
//! A [`Switch`] is started from a [`spec::Spec`], accepts a new one while it runs, and reports its counters as a
//! [`stats::Snapshot`].
//!
//! Modules; arrows point down:
//! - `switch`: the control side; owns the ports, builds plans, and hands them to workers;
//! - [`worker`]: pinned threads that run a plan to completion, round after round;
//! - [`forward`]: decides where a frame goes: patch, bridge, or a controller's flows;
//! - `monitor`: the state of a worker as others see it: its counters and its place;
//! - `stage`: processing of frames between a port and forwarding, in a fixed order;
//! - `neighbour`: answers ARP and neighbour discovery for the switch's addresses at uplink ports;
//! - [`port`]: where frames come from and go to.
#![deny(unsafe_code)]

mod answers;
mod clock;
pub mod counters;
pub mod drops;
pub mod forward;
mod live;
mod monitor;
mod neighbour;
mod octets;
pub mod port;
mod queue_id;
pub mod reload;
mod sharing;
pub mod spec;
mod stage;
pub mod stats;
mod switch;
pub mod why;
pub mod worker;

pub use switch::{Error, Switch};
