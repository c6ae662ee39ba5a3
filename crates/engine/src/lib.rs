//! Ports, forwarding and workers: the data path of Millrace.
//!
//! A [`Switch`] is started from a [`spec::Spec`], accepts a new one while it runs, reports its counters as a
//! [`stats::Snapshot`], and tells what happens in a log of [`events`].
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
pub mod events;
pub mod forward;
mod live;
mod monitor;
mod neighbour;
mod octets;
pub mod port;
mod queue_id;
mod sharing;
pub mod spec;
mod stage;
mod switch;
pub mod worker;

pub use api::{reload, stats, why};
pub use switch::{Error, Switch};
