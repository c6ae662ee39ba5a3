//! Zero-copy: a physical queue receives into the buffers that a guest posted, and sends from a guest's memory.
//!
//! The worker of such a queue lends: it takes posted buffers from the guest and offers them to the backend or kernel
//! that fills the queue (the filler). A frame that comes back in one and is for that guest is already in place; any
//! other is copied out, and its buffer is lent again. So are the packets of a frame that is taken apart.

mod direction;
mod guest;
mod lending;
mod mapped;
mod mapping;
mod share;
mod source;
mod timing;

pub(crate) use direction::Direction;
pub use guest::GuestBuffers;
pub(super) use lending::{Lending, PassOn};
pub use mapped::{LEND_ROOM, Mapped};
pub(super) use mapped::{RESERVE, RESERVE_ASLEEP};
pub(crate) use mapping::{Guest, GuestEnd, PhysicalEnd, attach};
pub use share::Mix;
pub(crate) use source::Source;
pub use timing::Timing;

use super::{RxQueue, TxQueue};
use packet::{Burst, Ethernet};
use std::sync::Arc;
use virtqueue::device::{Dequeue, Spliced};
use virtqueue::memory::Memory;

/// Decides by a frame's Ethernet header whether it goes to the other queue of the mapping, and nowhere else.
pub type HeaderTest<'t> = dyn FnMut(Ethernet) -> bool + 't;

/// Receive half of a physical queue that can fill a guest's buffers.
pub trait ZeroCopyRx {
    /// Like [`RxQueue::receive`]; frames may lie in buffers of `guest`.
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool;

    /// Like [`RxQueue::recycle`]; also offers as many of the guest's buffers as there is room for. Called once
    /// per round, even without frames. Reports whether any buffer was offered, the switch's own included, so that the
    /// filler must be notified.
    fn relend(&self, guest: &GuestBuffers) -> bool;

    /// Receives up to `most` frames into buffers of `guest`, delivers them to it, and lends it others, all in one: as far as their
    /// headers pass the `test`, if there is any, and all is as usual. [`Spliced::stopped`] tells that the next ones have to be received.
    fn splice(&self, _guest: &GuestBuffers, _most: u16, _test: Option<&mut HeaderTest<'_>>) -> Spliced {
        Spliced::NOTHING
    }

    /// Returns the times of its bursts, which its worker begins and ends.
    fn timing(&self) -> Option<&Timing>;

    /// Adapts the number of loans to the fate of the frames of a burst. Called between receiving and
    /// [`ZeroCopyRx::relend`], if a stage takes frames apart.
    fn adapt(&self, mix: Mix);

    /// Returns all loans to the guest. Nothing may fill them any more. Those that are set aside ([`GuestBuffers::set_aside`]) are
    /// not among them: its worker takes them up first, or they come back to the guest by the next half that takes them up.
    /// Returns how many frames are lost, received but not yet read.
    fn recall(&self, guest: &GuestBuffers) -> u64;
}

/// Transmit half of a physical queue that can send from a guest's memory: it keeps the chains of these frames.
pub trait ZeroCopyTx {
    /// Passes the chains that were kept here and are no longer needed, if there are any, to `release`.
    fn returned(&self, release: &mut dyn FnMut(&[u16]));

    /// Sends up to `most` frames of the mapped guest from its memory, and gives it the chains back that were sent, all in one: as far as
    /// their headers pass the `test`, if there is any, and all is as usual. [`Spliced::stopped`] tells that the next ones have to be
    /// received.
    fn splice(&self, _from: &Dequeue, _most: u16, _test: Option<&mut HeaderTest<'_>>) -> Spliced {
        Spliced::NOTHING
    }

    /// Returns the times of the mapped guest's bursts, which their worker begins and ends.
    fn timing(&self) -> Option<&Timing>;

    /// Reports whether chains are kept here, which the caller must then ask for.
    fn keeps(&self) -> bool;

    /// Returns the length from which frames of the mapped guest are sent without being read or copied; [`u32::MAX`] if
    /// all are copied.
    fn keeps_from(&self) -> u32;

    /// Like [`ZeroCopyTx::returned`], for all chains kept; the sender has stopped.
    fn recall(&self, release: &mut dyn FnMut(&[u16]));
}

/// Receive half of a guest whose chains outputs may keep.
pub trait KeepChains {
    /// Marks the chains at these places of the burst ([`Burst::kept`]) as kept by an output: they are not recycled
    /// until they are released. Called before [`RxQueue::recycle`].
    fn keep(&self, places: u32);

    /// Returns the ring, if its frames may go on.
    fn ring(&self) -> Option<&Dequeue>;

    /// Releases kept chains, which the next [`RxQueue::recycle`] returns.
    fn release(&self, ids: &[u16]);
}

/// Control side of a queue pair of a physical port that can receive into buffers of others.
pub(crate) trait ZeroCopyQueue: Send {
    /// Reports whether stopping one direction also stops the other one.
    fn is_coupled(&self) -> bool {
        false
    }
    /// Reports whether [`ZeroCopyQueue::share`] with these memories and addresses needs both directions stopped.
    fn rests_to_share(&self, _memories: &[Arc<Memory>], _macs: Option<&[[u8; 6]]>) -> bool {
        false
    }
    /// Lets the filler of the queue write to `memories`, and to no other memory of guests. With `macs`, only frames to
    /// these addresses and to groups may be written there, and others have to arrive in memory of the switch.
    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String>;
    /// Stops a direction whose half has stopped. When this returns, nothing fills or reads its buffers any more; on an
    /// error, the port has to be reopened, which is impossible before.
    fn stop(&mut self, direction: Direction) -> Result<(), String>;
    /// Has the port reopened, because the queue could not be stopped or started.
    fn fail(&mut self);
    /// Starts the receive half, which is new or has stopped, with buffers of the switch; of a guest, too, if it is `mapped`.
    fn start_receive(&mut self, mapped: Option<Arc<Mapped>>) -> Result<Box<dyn RxQueue>, String>;
    /// Starts the transmit half, which is new or has stopped.
    fn start_transmit(&mut self, mapped: Option<Arc<Mapped>>) -> Result<Box<dyn TxQueue>, String>;
}
