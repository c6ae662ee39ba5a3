//! A mapping, as the ports at its ends see it.

use super::{Mapped, ZeroCopyPort};
use crate::port::{Kept, ReceiveHalf, Site, TransmitHalf};
use std::sync::Arc;
use virtqueue::memory::Memory;

/// The mapping that a port is an end of. Queues go by vhost-user's index: the even one of a pair receives at the physical
/// port, and is received by the guest.
pub(crate) trait MappingEnd: Send + Sync {
    /// Returns the state shared with the half of `queue`, if the mapping has this queue.
    fn queue(&self, queue: usize) -> Option<Arc<Mapped>>;

    /// Adds the physical port at `site`, whose halves are attached.
    fn physical_up(&self, site: Arc<dyn Site>, port: Box<dyn ZeroCopyPort>);

    /// Removes the physical port, which has ended or will: nothing fills or reads its buffers.
    fn physical_down(&self);

    /// Adds a queue that the guest has started; its half is attached.
    fn guest_up(&self, index: usize, guest: Guest);

    /// Removes a receive queue of the guest at `site`. Returns its half with all loans, or an error.
    fn guest_receive_down(&self, site: &dyn Site, queue: usize) -> Result<Option<TransmitHalf>, Kept>;

    /// Removes a transmit queue of the guest at `site`. Returns its half with all kept chains, or an error.
    fn guest_transmit_down(&self, site: &dyn Site, queue: usize) -> Result<Option<ReceiveHalf>, Kept>;
}

/// A running queue of a mapped guest.
#[derive(Clone)]
pub(crate) struct Guest {
    /// The guest's port.
    pub(crate) site: Arc<dyn Site>,
    /// The queue pair.
    pub(crate) queue: usize,
    /// The guest's memory.
    pub(crate) memory: Arc<Memory>,
    /// For a transmit queue: [`virtqueue::device::Dequeue::id`], or zero.
    pub(crate) id: u64,
}
