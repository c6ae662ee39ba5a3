//! The end-to-end test harness: real clients around a switch under test.
//!
//! - [`guest`]: Linux virtual machines (QEMU, Debian's cloud kernel, busybox), driven over a serial line;
//! - [`dpdk`]: `dpdk-testpmd` as a sandboxed network function, and as a peer vhost-user switch;
//! - [`virtio`]: guests in this process that check every byte or break every rule;
//! - [`process`]: any daemon, with its output captured and its resources read from `/proc`;
//! - [`netns`]: network namespaces that are removed with their guard.
//!
//! Everything that a guard starts ends with it, by process id, even when the test panics. A missing tool or permission is an
//! [`Error`] that says so: a test must fail with it, never pass silently.
//!
//! Two cores are enough: a poller needs a core to itself, so [`cpu::Plan`] gives one to the switch and the rest to everything
//! else.

pub mod cpu;
pub mod dpdk;
mod error;
pub mod guest;
pub mod netns;
pub mod process;
pub mod virtio;

pub use error::{Error, Result};
