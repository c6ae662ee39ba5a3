//! virtio-user ports, driver role: the switch connects to another program's vhost-user backend, as a guest would.

mod control;
mod door;
mod header_probe;
mod own;
mod rx;
mod spec;
#[cfg(test)]
mod tests;
mod tx;

pub use rx::VirtioReceive;
pub use spec::{KIND, Keys, Settings};
pub use tx::VirtioTransmit;

use crate::drops::Drops;
use crate::port::keys::QUEUE_SIZES;
use packet::MAX_FRAME;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vhost_user::frontend::{DriverQueue, QueueEnd};
use virtqueue::NET_HEADER;
use virtqueue::memory::Arena;

/// Bytes of a buffer: the usual size of a DPDK packet buffer, header included.
const ROOM: u32 = 2048;

/// Buffers of the longest frame, each with room for a virtio header.
const LONGEST: u16 = MAX_FRAME.div_ceil(ROOM - NET_HEADER) as u16;

const _: () = assert!(LONGEST as i64 <= QUEUE_SIZES.start, "every queue has room for one");

/// Distance between buffers in bytes: an odd number of cache lines, so that frames spread over all sets of a cache.
pub const STRIDE: u32 = 33 * LINE;

/// Offset of a buffer in its stride: the frame after the virtio header begins on a cache line.
const LEAD: u32 = LINE - NET_HEADER;

/// Bytes of a cache line.
const LINE: u32 = 64;

/// One direction of a queue pair, as the session set it up.
pub struct QueueResources {
    /// The queue.
    pub queue: QueueEnd,
    /// Guest address of its buffers, [`STRIDE`] bytes per descriptor.
    pub buffers: u64,
    /// Memory of the ring and the buffers.
    pub arena: Arc<Arena>,
    /// Whether the device broke the ring.
    pub broken: Arc<AtomicBool>,
    /// Counters of frames that it drops.
    pub drops: Arc<Drops>,
}

/// A queue with buffers of the switch. Its entries hold the parts of each chain that the device has.
struct BufferedQueue<T> {
    queue: DriverQueue<T>,
    buffers: u64,
    arena: Arc<Arena>,
    broken: Arc<AtomicBool>,
    drops: Arc<Drops>,
}

impl<T: Default> BufferedQueue<T> {
    fn new(end: QueueResources) -> BufferedQueue<T> {
        let QueueResources { queue, buffers, arena, broken, drops } = end;
        BufferedQueue { queue: DriverQueue::new(queue), buffers, arena, broken, drops }
    }
}

impl<T> BufferedQueue<T> {
    fn buffer(&self, index: u16) -> u64 {
        self.buffers + u64::from(index) * u64::from(STRIDE) + u64::from(LEAD)
    }

    #[cold]
    fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}
