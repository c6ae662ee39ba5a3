//! Processes, namespaces and peers around a switch, for tests and measurements.
//!
//! - [`process`]: any daemon, with its output captured and its resources read from `/proc`;
//! - [`netns`]: network namespaces that end with their guard;
//! - [`lxc`]: programs in containers;
//! - [`dpdk`]: `dpdk-testpmd` as a sandboxed network function, as a load, and as a peer vhost-user switch; traffic applications;
//! - [`guest`]: a guest in this process, which sends and receives frames, and checks every byte;
//! - [`ovs`]: Open vSwitch in user space, with DPDK or without;
//! - [`millrace`]: Millrace itself, its configurations, and waits for its state;
//! - [`switch`]: all peers behind one trait, with any number of ports;
//! - [`cpu`]: assignment of cores.
//!
//! Everything that a guard starts ends with it, by process id, even when its owner panics or is killed. A missing tool or
//! permission is an [`Error`] that says so: a test must fail with it, never pass silently.

pub mod cpu;
pub mod dpdk;
mod error;
pub mod guest;
pub mod lxc;
pub mod millrace;
pub mod netns;
pub mod ovs;
pub mod process;
mod steps;
pub mod switch;

pub use error::{Error, Result, output_of};
