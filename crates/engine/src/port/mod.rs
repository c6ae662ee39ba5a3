//! Ports: where frames come from and go to.
//!
//! A port has queues, and a queue has two halves that different workers may drive: frames are received from one
//! ([`Receive`]) and transmitted to the other ([`Transmit`]). Wrappers ([`record`], [`fault`], [`staged`], what joins
//! packets, `aggregate`, and what encapsulates them, `tunnel`) take any half and are one themselves.

pub mod af_xdp;
pub(crate) mod around;
pub(crate) mod copy_break;
pub mod fault;
mod frames;
pub mod generator;
pub mod kernel;
pub mod lend;
pub mod pace;
pub mod pcap;
pub mod record;
pub mod staged;
pub mod vhost_user;
pub mod virtio_user;

use crate::drops::{Drops, Reason};
use lend::Lend;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use vhost_user::VhostTransmit;
use virtqueue::{Burst, Frames};

/// What a worker has to wait for before it looks at a queue again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: there is work.
    Ready,
    /// The queue's descriptor, see [`Receive::wake_fd`].
    Event,
    /// Some time, or the queue's descriptor if it has one.
    Time(Duration),
}

/// The half of a queue that frames come out of. Driven by one worker at a time.
///
/// Frames stay where they are and are borrowed from the queue, hence `&self`: a queue cannot be changed while a burst
/// of its frames is on its way. Every [`Receive::receive`] is followed by one [`Receive::recycle`], when all frames
/// have been sent or dropped.
pub trait Receive: Send {
    /// Adds the frames that are there to `burst`, in order. Returns whether there is anything to recycle, which may be
    /// so without any frame: a chain that was dropped has to go back too.
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool;

    /// Gives everything received back to where it came from.
    fn recycle(&self);

    /// Tells the peer of what was recycled, if it wants to be told. Called once a round, after a full fence.
    fn notify(&self) {}

    /// Readable when there may be something to receive, for a worker that sleeps.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Asks to be woken, and says what to wait for.
    fn arm(&self) -> Wait;

    /// No longer asks to be woken.
    fn disarm(&self) {}

    /// [`Receive::wake_fd`] is this from now on. Of a half that no worker polls at the time.
    fn rewire(&mut self, _kick: Option<::vhost_user::Event>) {}

    /// Where a successor has to go on, as in vhost-user's GET_VRING_BASE, if this is a ring.
    fn base(&self) -> Option<u32> {
        None
    }

    /// The chains at these places of the burst ([`Burst::kept`]) are kept by an output: they stay out until they are
    /// released. Called before [`Receive::recycle`].
    fn keep(&self, _places: u32) {}

    /// A kept chain is not needed any more; it goes back by the next [`Receive::recycle`].
    fn release(&self, _id: u16) {}

    /// Lets go of what fills its buffers, if that is its own to let go of. Called when no worker has it any more, and for
    /// good; what it has lent is still known. Returns how many frames are lost, which were received and not looked at yet.
    fn stop(&mut self) -> u64 {
        0
    }

    /// The half inside, if this one does nothing but record. It is taken out, and this one is of no use any more.
    fn unrecorded(&mut self) -> Option<Box<dyn Receive>> {
        None
    }

    /// The same half, if it can receive into a guest's buffers now.
    fn lends(&self) -> Option<&dyn Lend> {
        None
    }
}

/// The half of a queue that frames go into. Driven by one worker at a time.
pub trait Transmit: Send {
    /// Sends as many of `frames` as possible, in order. What is not sent is dropped, and counted by the caller.
    fn transmit(&self, frames: Frames<'_>) -> Sent;

    /// As [`Transmit::transmit`], if more may come in the same round: some may be held until then, but not beyond
    /// [`Transmit::flush`], with which the round ends.
    fn transmit_more(&self, frames: Frames<'_>) -> Sent {
        self.transmit(frames)
    }

    /// Sends what was held.
    fn flush(&self) -> Sent {
        Sent::default()
    }

    /// As [`Transmit::transmit`], for frames that are neither to be joined nor for a tunnel.
    fn transmit_bare(&self, frames: Frames<'_>) -> Sent {
        self.transmit(frames)
    }

    /// As [`Receive::notify`].
    fn notify(&self) {}

    /// As [`Receive::base`].
    fn base(&self) -> Option<u32> {
        None
    }

    /// Hands every chain that was kept here and is not needed any more to `release`.
    fn returned(&self, _release: &mut dyn FnMut(u16)) {}

    /// Chains are kept here at present: somebody has to ask for them.
    fn keeps(&self) -> bool {
        false
    }

    /// As [`Transmit::returned`], of all that were kept: whatever sends has stopped.
    fn recall(&self, _release: &mut dyn FnMut(u16)) {}

    /// As [`Receive::stop`]: lets go of what sends.
    fn stop(&mut self) {}

    /// The half that this one is around.
    fn inside(&mut self) -> Option<&mut Box<dyn Transmit>> {
        None
    }

    /// As [`Receive::unrecorded`].
    fn unrecorded(&mut self) -> Option<Box<dyn Transmit>> {
        None
    }

    /// The same half, if a guest's buffers can be borrowed from it now.
    fn guest(&self) -> Option<&VhostTransmit> {
        None
    }
}

/// What became of frames that were to be transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames sent.
    pub frames: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Frames longer than the port takes.
    pub too_long: u32,
    /// Frames that the kernel refused.
    pub refused: u32,
    /// Frames that were dropped and counted already.
    pub counted: u32,
    /// Frames that are held until the queue is flushed, less those that were held before and of which this tells.
    pub held: i32,
    /// Why the remaining ones were dropped, if there are any.
    pub rest: Option<Reason>,
}

impl Sent {
    /// None of the frames was sent, for one reason.
    pub fn none(reason: Reason) -> Sent {
        Sent { rest: Some(reason), ..Sent::default() }
    }

    /// Counts what was dropped out of `wanted` frames.
    #[inline(always)]
    pub fn count_drops(&self, wanted: usize, drops: &Drops) {
        let wanted = wanted as i64 - i64::from(self.held);
        if i64::from(self.frames) != wanted {
            self.count_some(wanted as u64, drops);
        }
    }

    /// What became of these frames and of others that were sent after them.
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
