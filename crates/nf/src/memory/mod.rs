//! The memory that packets live in: our own, shared with the devices of all ports that are opened together.
//!
//! This module holds all `unsafe` of the crate. What makes it sound is ownership by turns: a buffer belongs to the
//! device from the moment it is added to a queue until the device has used it, and to us otherwise. While the device
//! has it, its [`Packet`] is locked away beside the queue, where nobody can get at the bytes. The memory is our own,
//! so that nobody but the devices that we share it with ever writes to it, and a device that keeps to virtio (1.2
//! §2.7.6, §2.8.6) does not touch what it gave back.

mod buffers;
mod embedded;
mod packet;

pub use buffers::{Buffers, LINE};
pub use embedded::Embedded;
pub(crate) use embedded::Inside;
pub use packet::{HEADROOM, Packet};
pub(crate) use packet::{Pool, Segment};
