//! `dpdk-testpmd` as a network function in a sandbox, as a load, and as a vhost-user switch ([`Testpmd`]); traffic applications
//! ([`app`]); drivers that it loads ([`plugin`]).

pub mod app;
mod console;
mod lcores;
mod pages;
pub mod plugin;
mod port;
mod sandbox;
mod stats;
mod testpmd;

pub use console::{Console, READY};
pub use lcores::Lcores;
pub use pages::Pages;
pub use port::{AnyPort, Port, VhostPort};
pub use sandbox::Sandbox;
pub use stats::PortStats;
pub use testpmd::{Builder, Forward, MEGABYTES, Testpmd, version};
