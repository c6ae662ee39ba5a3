//! A mapping, as the ports at its ends see it.

use super::{Direction, Mapped, ZeroCopyQueue};
use crate::port::{Kept, ReceiveHalf, Site, TransmitHalf};
use std::sync::Arc;
use virtqueue::memory::Memory;

/// The mapping that a queue of a port is an end of.
pub(crate) trait MappingEnd: Send + Sync {
    /// Returns the state shared with the halves of the physical queue.
    fn mapped(&self) -> Arc<Mapped>;

    /// Adds the physical queue, of the port at `site`; its halves are attached.
    fn physical_up(&self, site: Arc<dyn Site>, queue: Box<dyn ZeroCopyQueue>);

    /// Removes the physical queue, which has ended or will: nothing fills or reads its buffers.
    fn physical_down(&self);

    /// Adds a queue that the guest has started; its half is attached.
    fn guest_up(&self, direction: Direction, guest: Guest);

    /// Removes the receive queue of the guest at `site`. Returns its half with all loans, or an error.
    fn guest_receive_down(&self, site: &dyn Site) -> Result<Option<TransmitHalf>, Kept>;

    /// Removes the transmit queue of the guest at `site`. Returns its half with all kept chains, or an error.
    fn guest_transmit_down(&self, site: &dyn Site) -> Result<Option<ReceiveHalf>, Kept>;
}

/// A running queue of a mapped guest.
#[derive(Clone)]
pub(crate) struct Guest {
    /// The guest's port.
    pub(crate) site: Arc<dyn Site>,
    /// The guest's memory.
    pub(crate) memory: Arc<Memory>,
    /// For a transmit queue: [`virtqueue::device::Dequeue::id`], or zero.
    pub(crate) id: u64,
}
