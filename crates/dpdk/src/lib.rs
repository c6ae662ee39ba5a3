//! Devices of DPDK, which receive into buffers that the caller lends, and send frames from where they lie.
//!
//! DPDK is not linked: a plugin in C (`dpdk/port`) is loaded at run time. It turns buffers into those of DPDK's drivers, which are not
//! changed, and frames into records. This crate does not know the owners of the memory.
//!
//! - [`Plugin`] is found, opened and checked; [`Dpdk`] is DPDK, started, once a process.
//! - [`Device`]: found or attached by [`Dpdk::probe`], set up by [`Device::open`], and started and stopped.
//! - [`Region`]: memory that a device may reach. Whatever is lent to a device, or sent by it, lies in one.
//! - [`Receive`] and [`Transmit`]: the halves of a queue, each for one worker. Nothing on their paths allocates, waits, or calls the
//!   kernel but for what the driver does.
//!
//! # Life of a buffer
//!
//! [`Receive::lend`] gives a buffer to the queue, where it waits until the device asks for one. [`Receive::burst`] returns it with a
//! frame, and [`Receive::reclaim`] without one, if the device does not have it. Drivers keep their rings full, and some hand out no
//! frame until there is another buffer for it: so the switch's own buffers are lent besides a guest's, [`Receive::reserve`] of them.
//!
//! # Ending loans
//!
//! Drivers differ in how they give back the buffers that they have, and some return without having done it. So count, by
//! [`Receive::out`]: try [`Device::stop_receive`], then [`Device::stop`], then [`Device::reattach`]. What is then still out never comes
//! back; dropping the [`Region`] takes it away from devices behind an IOMMU. Memory in which a loan is out stays mapped here.

mod abi;
mod device;
mod eal;
mod error;
mod frame;
mod half;
mod info;
mod memory;
mod plugin;
mod receive;
mod region;
mod rule;
mod sentence;
mod shared;
mod transmit;

pub use device::Device;
pub use eal::{Dpdk, Iova, Options, is_pci};
pub use error::{Error, Result};
pub use frame::{Frame, Kind, Loan, ToSend, Work};
pub use info::{Abilities, Bus, Config, Info, Limits, Link, Stats};
pub use plugin::Plugin;
pub use receive::{Out, Receive, ReceiveCounts};
pub use region::Region;
pub use rule::Rule;
pub use transmit::{Transmit, TransmitCounts};
