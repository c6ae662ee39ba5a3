//! A mapping, as the ports at its ends see it.

use super::{Direction, ZeroCopyQueue};
use crate::port::{Kept, ReceiveHalf, Site, TransmitHalf};
use std::sync::Arc;
use virtqueue::memory::Memory;

/// The physical end of a mapping: the place of a physical port's queue, whether it is mapped at present or not.
pub(crate) trait PhysicalEnd: Send + Sync {
    /// Adds the queue, of the port at `site`. Nothing of it runs yet: its halves are started and attached here. On an error the
    /// port has to be closed and opened again.
    fn physical_up(&self, site: Arc<dyn Site>, queue: Box<dyn ZeroCopyQueue>) -> Result<(), String>;

    /// Removes the queue, which has ended or will: nothing fills or reads its buffers.
    fn physical_down(&self);
}

/// The guest's end of a mapping.
pub(crate) trait GuestEnd: Send + Sync {
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

/// Gives a queue of the port at `site` to workers: by its end of a mapping, if it has one.
pub(crate) fn attach(site: &Arc<dyn Site>, index: usize, mut queue: Box<dyn ZeroCopyQueue>) -> Result<(), String> {
    if let Some(end) = site.physical_end(index) {
        return end.physical_up(site.clone(), queue);
    }
    let (receive, transmit) = (queue.start_receive(None)?, queue.start_transmit(None)?);
    site.attach(index, receive, transmit).map_err(|why| why.to_string())
}
