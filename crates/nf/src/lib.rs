//! Network functions over virtio-user: the driver side of vhost-user, in bursts.
//!
//! - [`Ports`] are opened together and share their memory, so that a received [`Packet`] is sent on by any of them as
//!   it is: its buffer goes to the device, and back to be received into when that has sent it.
//! - [`wire`]: Ethernet, ARP, IPv4 and ICMP, read and written in place.
//! - [`function`]: the sample network functions, without ports around them; `src/bin` has the programs.
//! - [`run()`]: the loop around a network function, polling or asleep.

mod aggregate;
pub mod cli;
pub mod function;
pub mod memory;
mod port;
mod run;
pub mod wire;

pub use aggregate::{Aggregation, Drops, Placement};
pub use memory::{Embedded, Packet};
pub use port::{Broken, Counters, OpenError, Options, Port, PortOptions, Ports, WaitError};
pub use run::{Idle, RunError, run};
