//! The device side of a queue, which a switch has: it takes frames out of a guest's transmit queue ([`Dequeue`]) and
//! puts frames into a guest's receive queue ([`Enqueue`]).
//!
//! Both are driven by one thread at a time, hence `&self` and cells: the frames of a burst borrow the queue that lent
//! them, and a queue can't be changed or dropped while any of its frames is on its way.

mod budget;
mod chain;
mod deliver;
mod keep;
mod lend;
mod packed;
mod place;
mod posted;
#[cfg(all(test, not(loom)))]
mod rogue;
mod split;

use crate::config::{Format, QueueConfig};
use crate::error::{Dropped, Fatal, SetupError};
use crate::frame::{Burst, Frames};
use crate::memory::Memory;
use std::cell::Cell;
use std::sync::Arc;

pub use deliver::Delivered;
pub use lend::{Landing, Loan};

/// Chains given back without a frame, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// [`Dropped::BadBuffer`].
    pub bad_buffer: u64,
    /// [`Dropped::Short`].
    pub short: u64,
    /// [`Dropped::TooLong`].
    pub too_long: u64,
}

impl DropCounts {
    fn count(cell: &Cell<DropCounts>, reason: Dropped) {
        let mut counts = cell.get();
        match reason {
            Dropped::BadBuffer => counts.bad_buffer += 1,
            Dropped::Short => counts.short += 1,
            Dropped::TooLong => counts.too_long += 1,
        }
        cell.set(counts);
    }
}

/// Takes frames out of a guest's transmit queue without copying them.
pub enum Dequeue {
    /// From a split ring.
    Split(split::Transmitq),
    /// From a packed ring.
    Packed(packed::Transmitq),
}

macro_rules! each {
    ($self:ident, $queue:ident => $body:expr) => {
        match $self {
            Self::Split($queue) => $body,
            Self::Packed($queue) => $body,
        }
    };
}

impl Dequeue {
    /// The queue that `config` describes, in `memory`.
    pub fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Ok(match config.negotiated.format() {
            Format::Split => Self::Split(split::Transmitq::new(memory, config)?),
            Format::Packed => Self::Packed(packed::Transmitq::new(memory, config)?),
        })
    }

    /// Fills `burst` with the frames that the guest wants sent, in order, as far as there is room; frames that are longer
    /// than 2048 bytes, or in many pieces, make it a shorter burst. Returns how many chains were taken; if more than frames
    /// were added, [`Dequeue::dropped`] says why.
    #[inline]
    pub fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        each!(self, q => q.receive(burst))
    }

    /// Gives all chains that were taken and are not kept back to the guest, published at once.
    #[inline]
    pub fn recycle(&self) {
        each!(self, q => q.recycle())
    }

    /// Lets chains of this queue be kept, unless it must return them in order: those that simple frames came in.
    pub fn allow_keeping(&mut self) {
        each!(self, q => q.allow_keeping())
    }

    /// The name by which frames of this queue are kept ([`Frames::keep`]); zero if they can't be.
    pub fn lender(&self) -> u64 {
        each!(self, q => q.kept().map_or(0, |kept| kept.lender()))
    }

    /// Keeps the chains at these places of the burst ([`Burst::kept`]). To be called before [`Dequeue::recycle`].
    #[inline]
    pub fn keep(&self, places: u32) {
        each!(self, q => q.kept().into_iter().for_each(|kept| kept.keep(places)))
    }

    /// A kept chain may go back to the guest, by the next [`Dequeue::recycle`].
    #[inline]
    pub fn release(&self, id: u16) {
        each!(self, q => q.kept().into_iter().for_each(|kept| kept.release(id)))
    }

    /// Chains that are kept at present.
    #[inline]
    pub fn kept(&self) -> u16 {
        each!(self, q => q.kept().map_or(0, |kept| kept.out()))
    }

    /// The guest may have work for us: there is something to receive.
    pub fn has_work(&self) -> bool {
        each!(self, q => q.has_work())
    }

    /// Asks the guest for kicks, or not to kick. After asking for them, [`crate::ordering::before_asking`] and
    /// [`Dequeue::has_work`] must be called before sleeping.
    pub fn set_kicks(&self, wanted: bool) {
        each!(self, q => q.used.set_kicks(wanted))
    }

    /// The guest wants to be notified of what was recycled since this was asked last. Call
    /// [`crate::ordering::before_asking`] in between.
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(self, q => q.used.wants_notification())
    }

    /// Chains dropped since the queue was made.
    pub fn dropped(&self) -> DropCounts {
        each!(self, q => q.dropped())
    }

    /// Times that [`Dequeue::receive`] left chains for its next call, because those before had cost enough.
    #[inline]
    pub fn cut_short(&self) -> u64 {
        each!(self, q => q.cut_short())
    }

    /// Where a later device would have to go on, as in [`QueueConfig::base`]. Everything taken must be recycled.
    pub fn base(&self) -> u32 {
        each!(self, q => q.used.base())
    }

    /// The memory that its frames lie in.
    pub fn memory(&self) -> &Memory {
        each!(self, q => &q.used.areas.memory)
    }
}

/// Puts frames into a guest's receive queue: the one copy.
pub enum Enqueue {
    /// Into a split ring.
    Split(deliver::Receiveq<split::Available>),
    /// Into a packed ring.
    Packed(deliver::Receiveq<packed::Available>),
}

impl Enqueue {
    /// The queue that `config` describes, in `memory`.
    pub fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Ok(match config.negotiated.format() {
            Format::Split => Self::Split(deliver::Receiveq::new(split::Available::new(memory, config)?, config)),
            Format::Packed => Self::Packed(deliver::Receiveq::new(packed::Available::new(memory, config)?, config)),
        })
    }

    /// From now on frames are delivered without being copied: the guest finds what was in its buffers before. For analysis
    /// only.
    pub fn omit_copies(&mut self) {
        each!(self, q => q.omit_copies())
    }

    /// Copies `frames` into buffers that the guest posted, in order, and publishes them at once.
    #[inline]
    pub fn transmit(&self, frames: Frames<'_>) -> Result<Delivered, Fatal> {
        each!(self, q => q.transmit(frames))
    }

    /// Takes a buffer that the guest posted, of at least `room` bytes in one run, for somebody else to fill: a virtio
    /// header, then a frame. `None` if the next one is not like that, or if no more than `keep` are left, for frames
    /// from elsewhere.
    #[inline]
    pub fn lend(&self, room: u32, keep: u32) -> Result<Option<Loan>, Fatal> {
        each!(self, q => q.lend(room, keep))
    }

    /// Bytes in one run of the buffer that is next, if that is why [`Enqueue::lend`] with the same arguments does not
    /// lend it: they are too few.
    #[inline]
    pub fn unfit(&self, room: u32, keep: u32) -> Option<u32> {
        each!(self, q => q.unfit(room, keep))
    }

    /// Adds the frame that was written into `loan` to `burst`, where it lies. If it comes back by [`Enqueue::transmit`], it
    /// is delivered in that buffer, even if it is shorter by then, or its first 16 bytes are others: what has to be moved is
    /// moved within the buffer when the burst ends. The loan is returned if the frame can't be in it: it is not of this
    /// queue, or too short.
    ///
    /// # Panics
    /// If there is no [`Burst::room`], or the frame is longer than [`crate::MAX_FRAME`].
    #[inline]
    pub fn take_filled<'q>(&'q self, loan: Loan, landing: Landing<'q>, burst: &mut Burst<'_, 'q>) -> Option<Loan> {
        each!(self, q => q.take_filled(loan, landing, burst))
    }

    /// Ends a burst of filled buffers: moves what has to be moved, publishes what was delivered, and hands the others to `unclaimed`.
    #[inline]
    pub fn settle(&self, unclaimed: impl FnMut(Loan)) {
        each!(self, q => q.settle(unclaimed))
    }

    /// Takes back a buffer that was not filled; it is the next to be used. One of another queue is forgotten.
    pub fn give_back(&self, loan: Loan) {
        each!(self, q => q.give_back(loan))
    }

    /// Returns everything to the guest that it posted and that was not used. All loans must be back.
    pub fn close(&self) {
        each!(self, q => q.close())
    }

    /// As [`Dequeue::set_kicks`]; a switch wants none for posted buffers.
    pub fn set_kicks(&self, wanted: bool) {
        each!(self, q => q.used().set_kicks(wanted))
    }

    /// As [`Dequeue::wants_notification`].
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(self, q => q.used().wants_notification())
    }

    /// Chains given back without a frame since the queue was made.
    pub fn dropped(&self) -> DropCounts {
        each!(self, q => q.dropped())
    }

    /// Where a later device would have to go on, as in [`QueueConfig::base`].
    pub fn base(&self) -> u32 {
        each!(self, q => q.used().base())
    }

    /// The memory that its buffers lie in.
    pub fn memory(&self) -> &Memory {
        each!(self, q => &q.used().areas.memory)
    }
}
