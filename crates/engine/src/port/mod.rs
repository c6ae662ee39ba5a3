//! Ports: sources and destinations of frames.
//!
//! A port has queues, and a queue has two halves that different workers may drive: frames are received from one ([`RxQueue`])
//! and transmitted to the other ([`TxQueue`]). Frames pass stages (`stage`) between a half and forwarding, of which the half
//! knows nothing.
//!
//! Each kind of port is a folder: `spec` (its settings), `control` (opening it, and what happens until it closes), `rx` and
//! `tx` (the halves of its queues). [`kinds`] registers it. The life of an open port:
//!
//! ```text
//!            open                 attach: workers have its queues
//!  settings ──────► opened, down ────────────────────────────────► up
//!                     ▲   ▲  a peer connects, an interface appears │ │
//!                     │   └────────────────────────────────────────┘ │ a mapping changes:
//!                     │      it goes, or a queue is lost: detach     │ stop, share, start
//!   closed ◄──────────┴── dropped, by a reload or at the end    ◄────┘ of single queues
//! ```
//!
//! # Write a port
//!
//! A queue's halves are two small traits. This port answers every frame that it is sent, with its addresses swapped:
//!
//! ```
//! use engine::port::{RxQueue, Sent, TxQueue, Wait};
//! use std::sync::{Arc, Mutex};
//! use packet::{Buffers, Burst, Frames, MAX_BURST};
//!
//! type Answers = Arc<Mutex<Vec<Vec<u8>>>>;
//!
//! struct Rx(Answers, Buffers);
//! struct Tx(Answers);
//!
//! impl TxQueue for Tx {
//!     fn transmit(&self, frames: Frames<'_>) -> Sent {
//!         let mut sent = Sent::default();
//!         for frame in frames.as_slice() {
//!             let mut bytes = vec![0; frame.len() as usize];
//!             frames.copy_to(frame, &mut bytes);
//!             bytes[..12].rotate_left(6);
//!             self.0.lock().unwrap().push(bytes);
//!             sent.frames += 1;
//!             sent.bytes += u64::from(frame.len());
//!         }
//!         sent
//!     }
//! }
//!
//! impl RxQueue for Rx {
//!     fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
//!         let mut answers = self.0.lock().unwrap();
//!         while burst.room() > 0
//!             && let Some(answer) = answers.pop()
//!         {
//!             self.1.push(burst, |buffer| {
//!                 buffer[..answer.len()].copy_from_slice(&answer);
//!                 Some(answer.len())
//!             });
//!         }
//!         !burst.is_empty()
//!     }
//!
//!     fn recycle(&self) {
//!         self.1.release();
//!     }
//!
//!     fn arm(&self) -> Wait {
//!         if self.0.lock().unwrap().is_empty() { Wait::Event } else { Wait::Ready }
//!     }
//! }
//!
//! let answers = Answers::default();
//! let (_rx, _tx) = (Rx(answers.clone(), Buffers::new(MAX_BURST, 2048)), Tx(answers));
//! ```
//!
//! A real port neither locks nor allocates on the path of a frame: see [`loopback`].

pub mod af_packet;
pub mod af_xdp;
#[cfg(feature = "analysis")]
mod analysis;
pub mod dpdk;
pub mod exchange;
pub mod files;
pub(crate) mod frames;
pub mod generator;
mod hold;
mod interface;
pub mod keys;
mod kind;
pub mod kinds;
pub mod loopback;
pub mod offloads;
mod own_frames;
pub mod pace;
pub mod pcap;
pub mod pool;
pub mod record;
mod session_fault;
pub mod sink;
mod site;
pub mod steer;
pub mod tap;
mod unfinished;
pub mod vhost_user;
pub mod virtio_user;
pub mod zero_copy;

#[cfg(feature = "analysis")]
pub use analysis::Analysis;
pub(crate) use exchange::{Exchange, ExchangeMember, Part as ExchangePart};
pub use hold::HoldBursts;
pub use kind::{Capabilities, PathUse, Queues};
pub(crate) use kind::{Opened, PortControl};
pub use session_fault::{Ending, SessionFault};
pub(crate) use site::{Kept, ReceiveHalf, Site, TransmitHalf};

use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use packet::offload::Offloads;
use packet::{Burst, BurstStorage, Frame, Frames, Judged, MAX_FRAME};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use zero_copy::{GuestBuffers, KeepChains, ZeroCopyRx, ZeroCopyTx};

/// Maximum number of queue pairs of a port.
pub const MAX_QUEUES: u16 = 128;

/// Condition for a worker to poll a queue again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: there is work.
    Ready,
    /// The queue's descriptor, see [`RxQueue::wake_fd`].
    Event,
    /// Some time, or the queue's descriptor if it has one.
    Time(Duration),
}

impl Wait {
    /// Returns the condition to wait for this or for some time, if that is limited.
    pub(crate) fn or_after(self, time: Option<Duration>) -> Wait {
        match (self, time) {
            (Wait::Event, Some(time)) => Wait::Time(time),
            (Wait::Time(own), Some(time)) => Wait::Time(own.min(time)),
            (wait, _) => wait,
        }
    }
}

/// Half of a queue that frames come from. Driven by one worker at a time.
///
/// Frames stay in place and are borrowed from the queue, hence `&self`: a queue cannot change while a burst borrows from it.
/// After every [`RxQueue::receive`] the worker calls [`RxQueue::recycle`] once, when all frames have been sent or dropped.
pub trait RxQueue: Send {
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

    /// Returns this half, if it can receive into a guest's buffers now.
    fn zero_copy(&self) -> Option<&dyn ZeroCopyRx> {
        None
    }

    /// Returns this half, if outputs may keep its chains.
    fn chains(&self) -> Option<&dyn KeepChains> {
        None
    }

    /// Returns this half, if other workers may use its frames when it has received more.
    fn holds(&self) -> Option<&dyn HoldBursts> {
        None
    }

    /// Returns this half, if it has life-cycle hooks.
    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        None
    }
}

/// Half of a queue that frames go to. Driven by one worker at a time.
pub trait TxQueue: Send {
    /// Sends as many of `frames` as possible, in order. The caller counts the rest as dropped.
    fn transmit(&self, frames: Frames<'_>) -> Sent;

    /// Sends frames with their judged bytes, as [`TxQueue::transmit`] does. This puts both together in `room`, as segments.
    fn transmit_judged(&self, judged: Judged<'_>, room: &mut BurstStorage) -> Sent {
        put_together(judged, room, |frames| self.transmit(frames))
    }

    /// Returns the work that frames may leave to the peer ([`packet::offload`]). All other frames that come here are complete.
    fn takes(&self) -> Offloads {
        Offloads::NONE
    }

    /// Reports whether the peer does the work of this frame, which is of the kinds that [`TxQueue::takes`] returns. All other frames that
    /// come here are complete, but for those that a guest has changed since.
    fn takes_from(&self, _frames: &Frames<'_>, _frame: &Frame<'_>) -> bool {
        true
    }

    /// Returns the maximum length in bytes of a message that segments for the peer are merged into; zero if none are to be. Only a peer that
    /// [takes](TxQueue::takes) messages of TCP gets any.
    fn longest_merged(&self) -> u32 {
        MAX_FRAME
    }

    /// See [`RxQueue::notify`].
    fn notify(&self) {}

    /// Returns this half, if it can send from a guest's memory.
    fn zero_copy(&self) -> Option<&dyn ZeroCopyTx> {
        None
    }

    /// Reports whether most of the last frames were sent without being read, as their buffers were exchanged.
    fn exchanges(&self) -> bool {
        false
    }

    /// See [`RxQueue::life_cycle`].
    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        None
    }

    /// Returns this half if a guest's buffers can be borrowed from it now.
    fn guest(&self) -> Option<&GuestBuffers> {
        None
    }
}

/// Passes frames to `send` as segments: the judged bytes of each, and the rest.
pub(crate) fn put_together(judged: Judged<'_>, room: &mut BurstStorage, send: impl FnOnce(Frames<'_>) -> Sent) -> Sent {
    let mut burst = room.start();
    let too_long = judged.add_to(&mut burst);
    let sent = send(burst.frames());
    Sent { too_long: sent.too_long + too_long, ..sent }
}

/// Changes of a half, made while no worker has it.
pub trait LifeCycle {
    /// Replaces the descriptor of [`RxQueue::wake_fd`].
    fn rewire(&mut self, _kick: Option<::vhost_user::Event>) {}

    /// Prepares for bursts that are held ([`HoldBursts`]), or for none any more: all that was held was given back and recycled.
    fn share(&mut self, _is_shared: bool) {}

    /// Returns the position at which a successor has to go on, as in vhost-user's GET_VRING_BASE, if this is a ring.
    fn base(&self) -> Option<u32> {
        None
    }

    /// Stops the device that fills or reads its buffers, if this half owns it. Called once; loans stay known. Returns how
    /// many frames are lost, which were received but not yet processed.
    fn stop(&mut self) -> u64 {
        0
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
    /// Frames that were dropped because the work that they left is not that of such a frame.
    pub bad_offload: u32,
    /// Frames sent that left work to the peer.
    pub passed_on: u32,
    /// Frames sent whose work the switch did.
    pub completed: u32,
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

    /// Counts what was sent.
    #[inline(always)]
    pub(crate) fn count(&self, counters: &QueueCounters) {
        if self.frames > 0 {
            counters.sent.packets.add(self.frames.into());
            counters.sent.bytes.add(self.bytes);
        }
        if self.passed_on | self.completed != 0 {
            counters.sent.offloaded.add(self.passed_on.into());
            counters.completed.add(self.completed.into());
        }
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
            bad_offload: self.bad_offload + after.bad_offload,
            passed_on: self.passed_on + after.passed_on,
            completed: self.completed + after.completed,
            held: self.held + after.held,
            rest: after.rest.or(self.rest),
        }
    }

    #[cold]
    fn count_some(&self, wanted: u64, drops: &Drops) {
        let by_reason =
            [(Reason::TooLong, self.too_long), (Reason::Refused, self.refused), (Reason::BadOffload, self.bad_offload)];
        for (reason, frames) in by_reason {
            if frames > 0 {
                drops.add(reason, frames.into());
            }
        }
        let known = [self.frames, self.too_long, self.refused, self.bad_offload, self.counted];
        let rest = wanted - known.map(u64::from).iter().sum::<u64>();
        if rest > 0 {
            drops.add(self.rest.unwrap_or(Reason::Down), rest);
        }
    }
}
