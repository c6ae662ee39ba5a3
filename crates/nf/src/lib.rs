//! Network functions over virtio-user.
//!
//! - [`buffers`]: the memory that packets live in.

pub mod buffers;
