//! The memory of packets: allocated here, shared with the devices of all ports that are opened together.
//!
//! This module holds all `unsafe` of the crate, except for the code that shows packets to other threads (`crew/batch.rs`). It
//! is sound because ownership alternates: the device owns a buffer from the moment it is added to a queue until the device
//! has used it, and we own it otherwise. While the device owns it, its [`Packet`] is stored beside the queue, where no code
//! can reach its bytes. The memory is our own, so that only the devices that we share it with can write to it besides us, and
//! a device that conforms to virtio (1.2 §2.7.6, §2.8.6) does not touch used buffers. With [`crate::Exchange::Group`] it is
//! the memory of a group, whose other functions are as much part of the program's trust as the device: each uses its own
//! buffers only, and the device tells it which these are. With [`crate::Exchange::Pages`] the device changes pages, and only
//! those of buffers that it owns.

mod buffers;
mod embedded;
mod in_hand;
mod inside;
mod packet;

pub use self::packet::{HEADROOM, Packet};
pub(crate) use self::packet::{Pool, Segment};
pub use buffers::{Buffers, LINE};
pub use embedded::Embedded;
use in_hand::InHand;
pub(crate) use inside::Inside;
