//! DPDK clients and peers: `dpdk-testpmd` as a network function in a sandbox ([`Testpmd`]), and as a vhost-user switch
//! ([`TestpmdSwitch`]).

mod console;
mod function;
mod sandbox;
mod stats;
mod switch;

pub use console::{Console, READY};
pub use function::{Builder, Forward, Port, Testpmd};
pub use sandbox::Sandbox;
pub use stats::PortStats;
pub use switch::{SwitchBuilder, SwitchPort, TestpmdSwitch};
