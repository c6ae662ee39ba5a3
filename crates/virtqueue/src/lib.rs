//! Guest memory and virtio 1.2 rings: split and packed, device side and driver side.
//!
//! This is the only crate that touches guest memory. It does so through raw pointers and atomics, never through a
//! Rust reference, and reads each guest word once: into a local, which is checked and used from then on.
//!
//! - [`memory`]: the regions a guest shares, mapped as windows, and address translation.
//! - [`Frame`] and [`Burst`]: borrowed bytes on their way from one queue to another.
//! - [`device`]: the switch's side of a ring; [`driver`]: the network function's side.
//! - [`copy`]: the only copy of a frame.
#![warn(unreachable_pub)]

mod areas;
mod buffers;
mod config;
pub mod copy;
pub mod device;
pub mod driver;
mod error;
mod frame;
mod layout;
pub mod memory;
pub mod ordering;
mod position;
mod sync;

pub use buffers::Buffers;
pub use config::{Format, MAX_CHAIN, MAX_QUEUE_SIZE, Negotiated, QueueConfig, features};
pub use error::{Dropped, Fatal, SetupError};
pub use frame::{
    Burst, BurstStorage, Ethernet, Frame, Frames, Lease, MAX_BURST, MAX_FRAME, MAX_SEGMENTS, MIN_FRAME, Segment,
};
pub use layout::NET_HEADER;
