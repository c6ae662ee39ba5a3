//! Guest memory and virtio 1.2 rings: split and packed, device side and driver side.
//!
//! This is the only crate that finds guest memory and writes to it. It does so through raw pointers and atomics, never
//! through a Rust reference, and reads each guest word once: into a local, which is checked and used from then on. The
//! bytes of frames are read through [`packet`], whose frames borrow from the queue that they come from.
//!
//! - [`memory`]: the regions a guest shares, mapped as extents, and address translation.
//! - [`exchange`]: buffers of a group that change hands instead of being copied.
//! - [`unfinished`]: checksums that a peer left to its receiver.
//! - [`device`]: the switch's side of a ring; [`driver`]: the network function's side.
#![warn(unreachable_pub)]

mod areas;
mod config;
pub mod device;
pub mod driver;
mod error;
pub mod exchange;
mod layout;
pub mod memory;
pub mod offload;
mod position;
pub mod unfinished;

pub use config::{AreaSizes, Format, MAX_CHAIN, MAX_QUEUE_SIZE, Negotiated, QueueConfig, features};
pub use error::{Dropped, Fatal, SetupError};
pub use handover::ordering;
pub use layout::NET_HEADER;
