//! The switch, as an open port sees it: it takes the port's queues and learns the port's state.

use super::zero_copy::{GuestEnd, PhysicalEnd};
use super::{ExchangeMember, RxQueue, SessionFault, TxQueue};
use crate::drops::{Drops, Reason};
use crate::port::files::FileUses;
use crate::port::record::Recorder;
use crate::stats::OffloadStats;
use netdev::RxMonitor;
use packet::MacAddr;
use std::sync::Arc;
use vhost_user::Event;

/// A queue's receive half, as it moves between a port and its workers.
pub(crate) type ReceiveHalf = Box<dyn RxQueue>;

/// A queue's transmit half, as it moves between a port and its workers.
pub(crate) type TransmitHalf = Box<dyn TxQueue>;

/// Reason why a half cannot be taken from a worker, or given to one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Kept(pub(crate) String);

/// The place of a port in the switch.
pub(crate) trait Site: Send + Sync {
    /// Returns the name of the port.
    fn name(&self) -> &str;

    /// Returns the number of queue pairs that the switch has room for.
    fn queues(&self) -> usize;

    /// Returns the counters of frames that the queues of the port drop.
    fn drops(&self) -> &Arc<Drops>;

    /// Returns the fault that ends the session of the port's peer.
    fn fault(&self) -> &Arc<SessionFault>;

    /// Returns the settings for measurements.
    #[cfg(feature = "analysis")]
    fn analysis(&self) -> super::Analysis;

    /// Returns by how many bytes the frames outside the port are longer, if it is the end of a tunnel; else zero.
    fn overhead(&self) -> u32;

    /// Reports whether aggregates arrive here.
    fn aggregates(&self) -> bool;

    /// Returns the reason for which frames from the port, or to it, must be complete, if there is one: none may then leave work to others
    /// ([`packet::offload`]).
    fn needs_complete(&self) -> Option<&'static str>;

    /// Sets the offloads of the port that users see.
    fn set_offloads(&self, offloads: OffloadStats);

    /// Returns the physical end of mappings that a queue of the port is. If any of its queues is mapped, all are such ends.
    fn physical_end(&self, queue: usize) -> Option<&dyn PhysicalEnd>;

    /// Returns the guest's end of a mapping that a queue of the port is.
    fn guest_end(&self, queue: usize) -> Option<&dyn GuestEnd>;

    /// Returns the port's membership in a group whose functions exchange buffers.
    fn exchange(&self) -> Option<&ExchangeMember>;

    /// Sets the state that users see.
    fn set_state(&self, up: bool, detail: String);

    /// Sets whether a guest is connected, or the reason for which it has left: for ports that serve guests.
    fn set_guest(&self, guest: Result<(), String>);

    /// Sets whether peers can connect to the port's socket, or one is connected: for ports that serve peers.
    fn set_open(&self, open: bool);

    /// Sets the properties of the port's interface that users see: its address, and its speed in megabits per second.
    fn set_interface(&self, mac: MacAddr, speed: Option<u32>);

    /// Sets the function that ends the present session of the port's peer.
    fn set_disconnect(&self, disconnect: Box<dyn Fn() + Send + Sync>);

    /// Returns the files that the switch uses.
    fn files(&self) -> &Arc<FileUses>;

    /// Sets the file that frames to the port go into.
    fn write_to(&self, file: Recorder);

    /// Gives a queue that is up to the worker that polls it, and waits until it has it. A worker that does not respond
    /// drops the half later.
    fn attach_receive(&self, queue: usize, half: ReceiveHalf) -> Result<(), Kept>;

    /// Like [`Site::attach_receive`], for the transmit half.
    fn attach_transmit(&self, queue: usize, half: TransmitHalf) -> Result<(), Kept>;

    /// Takes a queue from its worker. When this returns, none of its frames is in use any more. A worker that does not
    /// respond drops the half later.
    fn detach_receive(&self, queue: usize) -> Result<Option<ReceiveHalf>, Kept>;

    /// Like [`Site::detach_receive`], for the transmit half.
    fn detach_transmit(&self, queue: usize) -> Result<Option<TransmitHalf>, Kept>;

    /// Replaces the kick descriptor of a queue that is polled.
    fn rewire(&self, queue: usize, kick: Option<Event>) -> Result<(), Kept>;

    /// Takes the first `queues` queues from their workers, for good; a worker that does not respond drops them later.
    fn clear(&self, queues: usize);
}

impl dyn Site + '_ {
    /// Removes all queues of a physical port from its ends of mappings. See [`PhysicalEnd::physical_down`].
    pub(crate) fn physical_down(&self) {
        (0..self.queues()).filter_map(|queue| self.physical_end(queue)).for_each(|end| end.physical_down());
    }

    pub(crate) fn is_mapped(&self) -> bool {
        (0..self.queues()).any(|queue| self.physical_end(queue).is_some() || self.guest_end(queue).is_some())
    }

    /// Gives both halves of a queue that is up to workers.
    pub(crate) fn attach(&self, queue: usize, receive: ReceiveHalf, transmit: TransmitHalf) -> Result<(), Kept> {
        self.attach_receive(queue, receive)?;
        self.attach_transmit(queue, transmit)
    }

    /// Counts the frames that the kernel lost since the last call because a ring was full.
    pub(crate) fn count_losses(&self, ring: &RxMonitor) {
        if let Some(Ok(counted)) = ring.take()
            && counted.drops > 0
        {
            self.drops().add(Reason::KernelLoss, counted.drops);
        }
    }

    /// Ends the peer's session if a worker kept a queue of it.
    pub(crate) fn end_session_if(&self, done: Result<(), Kept>) {
        done.err().into_iter().for_each(|why| self.fault().withhold(why.to_string()));
    }
}
