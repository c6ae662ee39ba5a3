//! The device side of a queue, which a switch has: it takes frames out of a guest's transmit queue ([`Dequeue`]) and
//! puts frames into a guest's receive queue ([`Enqueue`]).
//!
//! Both are driven by one thread at a time, hence `&self` and cells: the frames of a burst borrow the queue that lent
//! them, and a queue can't be changed or dropped while any of its frames is on its way.

mod chain;
mod deliver;
mod packed;
mod posted;
mod split;

use crate::config::{Format, QueueConfig};
use crate::error::{Dropped, Fatal, SetupError};
use crate::frame::{Burst, Frames};
use crate::memory::Memory;
use std::cell::Cell;
use std::sync::Arc;

pub use deliver::Delivered;

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

    /// Fills `burst` with the frames that the guest wants sent, in order, as far as there is room. Returns how many
    /// chains were taken; if more than frames were added, [`Dequeue::dropped`] says why.
    #[inline]
    pub fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        each!(self, q => q.receive(burst))
    }

    /// Gives all chains that were taken back to the guest, published at once.
    #[inline]
    pub fn recycle(&self) {
        each!(self, q => q.recycle())
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

    /// Copies `frames` into buffers that the guest posted, in order, and publishes them at once.
    #[inline]
    pub fn transmit(&self, frames: Frames<'_>) -> Result<Delivered, Fatal> {
        each!(self, q => q.transmit(frames))
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
