//! The driver role: shares an arena with a device and gets running queues.

mod by_hand;
mod driver_queue;
mod error;
mod guard;
mod link;
mod membership;
mod negotiate;

use crate::{Event, Mode};
use std::path::PathBuf;
use std::sync::Arc;
use virtqueue::memory::Region;

pub use driver_queue::{DriverQueue, Returned};
pub use error::FrontendError;
pub use link::Link;
pub use membership::{Member, Membership};

/// Configuration of a link.
#[derive(Clone, Debug)]
pub struct FrontendOptions {
    /// Path of the socket.
    pub socket: PathBuf,
    /// The side that listens. A server accepts one connection and then stops listening.
    pub mode: Mode,
    /// Queue pairs wanted, at least one.
    pub queue_pairs: u16,
    /// Sizes of the queues of each pair.
    pub queue_sizes: QueueSizes,
    /// virtio features to accept if offered, besides `VERSION_1`; offloads as far as [`virtqueue::offload::settled`] leaves them.
    pub features: u64,
    /// The exchange that replaces copies of the function's frames, if wanted; the device must offer it.
    pub exchange: Option<Exchange>,
}

/// Participation of a function in an exchange.
#[derive(Clone, Debug)]
pub enum Exchange {
    /// With buffers of a group's memory.
    Group(Arc<Membership>),
    /// With pages of an area of its own, which is shared besides the arena. The function promises that each buffer there is alone
    /// in its pages.
    Pages(Region),
}

/// Sizes of the two queues of a pair, in descriptors, named from the driver's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSizes {
    /// Size of the queue that the device fills.
    pub receive: u16,
    /// Size of the queue that the device empties.
    pub transmit: u16,
}

impl From<u16> for QueueSizes {
    fn from(size: u16) -> QueueSizes {
        QueueSizes { receive: size, transmit: size }
    }
}

/// The two queues of a pair.
pub struct QueuePair {
    /// Queue whose buffers the device fills.
    pub receive: QueueEnd,
    /// Queue whose buffers the device sends.
    pub transmit: QueueEnd,
}

/// One running queue, to be driven by a [`DriverQueue`].
pub struct QueueEnd {
    /// The driver's side of the ring.
    pub queue: virtqueue::driver::Queue,
    /// Position of the ring in the arena.
    pub config: virtqueue::QueueConfig,
    /// Kicks the device.
    pub kick: Event,
    /// Becomes readable when the device notifies, until cleared.
    pub call: Event,
}

impl QueueEnd {
    /// Returns the driver end of a queue with new events, which the caller passes to the device.
    pub fn create(queue: virtqueue::driver::Queue, config: virtqueue::QueueConfig) -> std::io::Result<QueueEnd> {
        Ok(QueueEnd { queue, config, kick: Event::create()?, call: Event::create()? })
    }
}
