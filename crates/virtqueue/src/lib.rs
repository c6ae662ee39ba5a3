//! Guest memory and virtio 1.2 rings: split and packed, device side and driver side.
//!
//! This is the only crate that touches guest memory. It does so through raw pointers and atomics, never through a
//! Rust reference, and reads each guest word once: into a local, which is checked and used from then on.
//!
//! - [`memory`]: what a guest shares, mapped as windows, and how its addresses are translated.
//! - [`Frame`] and [`Burst`]: borrowed bytes that travel from one queue to another.
//! - [`device`]: the side of a ring that a switch has; [`driver`]: the side that a network function has.
//! - [`copy`]: the one copy.
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
pub use frame::{Burst, BurstStorage, Ethernet, Frame, Frames, MAX_BURST, MAX_FRAME, MAX_SEGMENTS, MIN_FRAME, Segment};
pub use layout::NET_HEADER;
