//! Network functions over virtio-user: the driver side of vhost-user, in bursts.
//!
//! - [`Ports`] are opened together and share their memory, so that any of them can forward a received [`Packet`] without
//!   a copy: the device gets its buffer, and returns it to the pool after sending.
//! - [`wire`]: Ethernet, ARP, IPv4 and ICMP, read and written in place.
//! - [`function`]: the sample network functions, independent of ports; `src/bin` has the programs.
//! - [`run()`]: the loop around a network function, which polls or sleeps when idle.
//! - [`proxy`]: TCP that ends in user space, for services on local sockets.
//! - [`crew`]: several workers that process the frames of all ports, while one thread alone talks to the devices.

mod aggregate;
pub mod cli;
pub mod crew;
mod cycles;
#[cfg(feature = "functions")]
pub mod function;
pub mod memory;
mod port;
#[cfg(feature = "functions")]
pub mod proxy;
mod run;
pub mod wire;

pub use aggregate::{Aggregation, Drops, Splitter};
pub use cycles::Cycles;
pub use memory::{Embedded, Packet};
pub use port::{Broken, Counters, Exchange, OpenError, Options, Port, PortOptions, Ports, WaitError};
pub use run::{Idle, RunError, Work, run, run_work};
