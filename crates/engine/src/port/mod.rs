//! Ports: sources and destinations of frames.
//!
//! A port has queues, and a queue has two halves that different workers may drive: frames are received from one
//! ([`Receive`]) and transmitted to the other ([`Transmit`]). Wrappers ([`record`], [`fault`], [`staged`], `aggregate`,
//! `tunnel`) contain any half and are halves themselves.
//!
//! Each kind of port is a folder: `spec` (its settings), `control` (opening it, and what happens until it closes), `rx`
//! and `tx` (the halves of its queues). [`kinds`] registers it.

pub mod af_packet;
pub mod af_xdp;
mod analysis;
pub(crate) mod around;
pub(crate) mod copy_break;
pub mod fault;
mod frames;
pub mod generator;
mod interface;
pub mod keys;
mod kind;
pub mod kinds;
pub mod loopback;
pub mod pace;
pub mod pcap;
pub mod record;
mod session_fault;
pub mod sink;
mod site;
pub mod staged;
pub mod tap;
pub mod vhost_user;
pub mod virtio_user;
pub mod zero_copy;

pub use analysis::Analysis;
pub use kind::{Capabilities, PathUse, Queues};
pub(crate) use kind::{Opened, PortControl};
pub use session_fault::{Ending, SessionFault};
pub(crate) use site::{Kept, ReceiveHalf, Site, TransmitHalf};

use crate::drops::{Drops, Reason};
use packet::{Burst, Frames};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use zero_copy::{GuestBuffers, ZeroCopyRx};

/// Maximum number of queue pairs of a port.
pub const MAX_QUEUES: u16 = 64;

/// Condition for a worker to look at a queue again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: there is work.
    Ready,
    /// The queue's descriptor, see [`Receive::wake_fd`].
    Event,
    /// Some time, or the queue's descriptor if it has one.
    Time(Duration),
}

/// Half of a queue that frames come from. Driven by one worker at a time.
///
/// Frames stay in place and are borrowed from the queue, hence `&self`: a queue cannot change while a burst borrows from it.
/// After every [`Receive::receive`] the worker calls [`Receive::recycle`] once, when all frames have been sent or dropped.
pub trait Receive: Send {
    /// Adds waiting frames to `burst`, in order. Reports whether there is anything to recycle, possibly without any
    /// frame: a dropped chain must be returned too.
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool;

    /// Returns all that was received to its owner.
    fn recycle(&self);

    /// Notifies the peer of recycled descriptors, if it asks for that. Called once per round, after a full fence.
    fn notify(&self) {}

    /// Returns a descriptor that is readable when there may be frames to receive, for a worker that sleeps.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Asks for notifications, and returns the condition to wait for.
    fn arm(&self) -> Wait;

    /// Stops asking for notifications.
    fn disarm(&self) {}

    /// Replaces the descriptor of [`Receive::wake_fd`]. No worker may be polling this half.
    fn rewire(&mut self, _kick: Option<::vhost_user::Event>) {}

    /// Returns the position at which a successor has to go on, as in vhost-user's GET_VRING_BASE, if this is a ring.
    fn base(&self) -> Option<u32> {
        None
    }

    /// Marks the chains at these places of the burst ([`Burst::kept`]) as kept by an output: they are not recycled
    /// until they are released. Called before [`Receive::recycle`].
    fn keep(&self, _places: u32) {}

    /// Releases a kept chain, which the next [`Receive::recycle`] returns.
    fn release(&self, _id: u16) {}

    /// Stops what fills its buffers, if this half owns that. Called once, when no worker has the half any more; loans
    /// stay known. Returns how many frames are lost, which were received but not yet looked at.
    fn stop(&mut self) -> u64 {
        0
    }

    /// Takes the half out of this one, if this one only records. This one is unusable afterwards.
    fn unrecorded(&mut self) -> Option<Box<dyn Receive>> {
        None
    }

    /// Returns this half, if it can receive into a guest's buffers now.
    fn lends(&self) -> Option<&dyn ZeroCopyRx> {
        None
    }
}

/// Half of a queue that frames go to. Driven by one worker at a time.
pub trait Transmit: Send {
    /// Sends as many of `frames` as possible, in order. The caller counts the rest as dropped.
    fn transmit(&self, frames: Frames<'_>) -> Sent;

    /// Like [`Transmit::transmit`], when more frames may follow in the round: the queue may hold some of them until
    /// [`Transmit::flush`], which ends the round.
    fn transmit_more(&self, frames: Frames<'_>) -> Sent {
        self.transmit(frames)
    }

    /// Sends held frames.
    fn flush(&self) -> Sent {
        Sent::default()
    }

    /// Like [`Transmit::transmit`], for frames that are neither joined nor encapsulated.
    fn transmit_bare(&self, frames: Frames<'_>) -> Sent {
        self.transmit(frames)
    }

    /// See [`Receive::notify`].
    fn notify(&self) {}

    /// See [`Receive::base`].
    fn base(&self) -> Option<u32> {
        None
    }

    /// Passes every chain that was kept here and is no longer needed to `release`.
    fn returned(&self, _release: &mut dyn FnMut(u16)) {}

    /// Reports whether chains are kept here, which the caller must then ask for.
    fn keeps(&self) -> bool {
        false
    }

    /// Like [`Transmit::returned`], for all chains kept; the sender has stopped.
    fn recall(&self, _release: &mut dyn FnMut(u16)) {}

    /// Stops the sender. See [`Receive::stop`].
    fn stop(&mut self) {}

    /// Returns the half inside this wrapper.
    fn inside(&mut self) -> Option<&mut Box<dyn Transmit>> {
        None
    }

    /// See [`Receive::unrecorded`].
    fn unrecorded(&mut self) -> Option<Box<dyn Transmit>> {
        None
    }

    /// Returns this half if a guest's buffers can be borrowed from it now.
    fn guest(&self) -> Option<&GuestBuffers> {
        None
    }
}

/// Outcome of a transmit call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames sent.
    pub frames: u32,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames longer than the port takes.
    pub too_long: u32,
    /// Frames that the kernel refused.
    pub refused: u32,
    /// Frames dropped and already counted.
    pub counted: u32,
    /// Net change in frames held until the end of the round.
    pub held: i32,
    /// Reason for dropping the remaining frames, if there are any.
    pub rest: Option<Reason>,
}

impl Sent {
    /// Returns an outcome in which no frame was sent, for one reason.
    pub fn none(reason: Reason) -> Sent {
        Sent { rest: Some(reason), ..Sent::default() }
    }

    /// Counts the drops among `wanted` frames.
    #[inline(always)]
    pub fn count_drops(&self, wanted: usize, drops: &Drops) {
        let wanted = wanted as i64 - i64::from(self.held);
        if i64::from(self.frames) != wanted {
            self.count_some(wanted as u64, drops);
        }
    }

    /// Adds the outcome of frames sent afterwards.
    pub(crate) fn and(self, after: Sent) -> Sent {
        Sent {
            frames: self.frames + after.frames,
            bytes: self.bytes + after.bytes,
            too_long: self.too_long + after.too_long,
            refused: self.refused + after.refused,
            counted: self.counted + after.counted,
            held: self.held + after.held,
            rest: after.rest.or(self.rest),
        }
    }

    #[cold]
    fn count_some(&self, wanted: u64, drops: &Drops) {
        for (reason, frames) in [(Reason::TooLong, self.too_long), (Reason::Refused, self.refused)] {
            if frames > 0 {
                drops.add(reason, frames.into());
            }
        }
        let known = [self.frames, self.too_long, self.refused, self.counted];
        let rest = wanted - known.map(u64::from).iter().sum::<u64>();
        if rest > 0 {
            drops.add(self.rest.unwrap_or(Reason::Down), rest);
        }
    }
}
