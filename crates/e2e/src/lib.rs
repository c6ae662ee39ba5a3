//! The end-to-end test harness: real clients around a switch under test.
//!
//! - [`guest`]: Linux virtual machines (QEMU, Debian's cloud kernel, busybox), driven over a serial line;
//! - [`virtio`]: guests in this process that check every byte or break every rule;
//! - [`switch`]: Millrace under test;
//! - [`cable`], [`wire`], [`functions`]: the other side of its physical ports, and [`gate`] in front of it;
//! - [`echoed`]: frames that a guest inside a virtual machine sends back;
//! - [`live`]: honest traffic during an attack; [`mapped`]: guests of mapped ports that come and go;
//! - [`stream`], [`aggregate`]: packets that are joined, and aggregates made by hand;
//! - [`flows`], [`host`], [`transfer`], [`plugin`]: switches that forward by flows, hosts, files, the driver and the plugin for DPDK.
//!
//! The processes and namespaces around them are those of [`lab`]. Two cores are enough: a poller needs a core to itself, so
//! [`lab::cpu::Plan`] gives one to the switch and the rest to everything else.

pub mod aggregate;
pub mod cable;
pub mod echoed;
pub mod flows;
pub mod functions;
pub mod gate;
pub mod guest;
pub mod host;
pub mod live;
pub mod mapped;
pub mod plugin;
pub mod stream;
pub mod switch;
pub mod transfer;
pub mod virtio;
pub mod wire;

pub use lab::cpu::rest;
pub use lab::millrace::{Port, SOON};
pub use switch::{Home, Millrace, VmSwitch, companion, function, poller, program, testbed, wait_for};
