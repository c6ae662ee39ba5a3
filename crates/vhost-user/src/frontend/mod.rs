//! The driver role: shares an arena with a device, and gets running queues.

mod by_hand;
mod error;
mod guard;
mod link;
mod negotiate;

use crate::{Event, Mode};
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
    /// Descriptors of the queues of each pair.
    pub queue_sizes: QueueSizes,
    /// virtio features wanted, as far as the device has them, besides `VERSION_1`.
    pub features: u64,
}

/// Descriptors of the two queues of a pair, as their driver names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSizes {
    /// Of the one that the device fills.
    pub receive: u16,
    /// Of the one that the device empties.
    pub transmit: u16,
}

impl From<u16> for QueueSizes {
    fn from(size: u16) -> QueueSizes {
        QueueSizes { receive: size, transmit: size }
    }
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
    /// Kicks the device.
    pub kick: Event,
    /// Readable when the device notifies, until cleared.
    pub call: Event,
}
