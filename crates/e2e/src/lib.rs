//! The end-to-end test harness: real clients around a switch under test.
//!
//! - [`guest`]: Linux virtual machines (QEMU, Debian's cloud kernel, busybox), driven over a serial line;
//! - [`virtio`]: guests in this process that check every byte or break every rule.
//!
//! The processes and namespaces around them are those of [`lab`]. Two cores are enough: a poller needs a core to itself, so
//! [`lab::cpu::Plan`] gives one to the switch and the rest to everything else.

pub mod guest;
pub mod virtio;
