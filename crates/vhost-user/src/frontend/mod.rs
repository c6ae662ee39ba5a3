//! The driver role: shares an arena with a device, and gets running queues.

mod by_hand;
mod error;
mod guard;
mod link;
mod negotiate;

use crate::Mode;
use rustix::fd::OwnedFd;
use std::path::PathBuf;

pub use error::FrontendError;
pub use link::Link;

/// What to connect to, and what to ask for.
#[derive(Clone, Debug)]
pub struct FrontendOptions {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Who listens on it. A server accepts one connection, and listens no longer.
    pub mode: Mode,
    /// Queue pairs wanted, at least one.
    pub queue_pairs: u16,
    /// Descriptors per queue.
    pub queue_size: u16,
    /// virtio features wanted, as far as the device has them, besides `VERSION_1`.
    pub features: u64,
}

/// The two queues of a pair.
pub struct QueuePair {
    /// Its buffers are filled by the device.
    pub receive: QueueEnd,
    /// Its buffers are sent by the device.
    pub transmit: QueueEnd,
}

/// One running queue.
pub struct QueueEnd {
    /// The driver's side of the ring.
    pub queue: virtqueue::driver::Queue,
    /// Where the ring lies in the arena.
    pub config: virtqueue::QueueConfig,
    /// What [`crate::notify`] kicks the device by.
    pub kick: OwnedFd,
    /// Readable when the device notifies, until [`crate::clear`]ed.
    pub call: OwnedFd,
}
