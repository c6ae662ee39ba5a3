//! The device side of a queue, used by a switch: [`Dequeue`] takes frames out of a guest's transmit queue, and
//! [`Enqueue`] puts frames into a guest's receive queue.
//!
//! One thread at a time drives a queue, hence `&self` and cells: the frames of a burst borrow the queue that they came
//! from, so the queue cannot be changed or dropped while any of its frames is in use.

mod aside;
mod budget;
mod chain;
mod fixup;
mod header;
mod keep;
mod lend;
mod packed;
mod posted;
mod receiveq;
mod ring;
#[cfg(test)]
mod rogue;
mod split;
mod taken;
mod transmitq;

use crate::config::{Format, QueueConfig};
use crate::error::{Dropped, Fatal, SetupError};
use crate::exchange::{Joined, PageMember};
use crate::memory::{DirtyLog, Memory, Unlogged};
use packet::{Burst, Frames, Judged, Kind, Unjudged};
use std::cell::Cell;
use std::sync::Arc;

pub use aside::Aside;
pub use lend::{Borrower, FilledLoans, Landing, Loan, Terms, Told};
pub use receiveq::Delivered;

use packed::{PackedRing, PackedTransmit};
use receiveq::{Hands, Receiveq};
use ring::DeviceRing;
use split::{SplitRing, SplitTransmit};
use transmitq::Transmitq;

/// Chains returned without a frame, by reason.
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

/// The device side of a guest's transmit queue: takes frames without copying them. It tells a [`DirtyLog`] what it writes.
pub enum Dequeue<L: DirtyLog = Unlogged> {
    /// A split ring.
    Split(Transmitq<SplitTransmit<L>>),
    /// A packed ring.
    Packed(Transmitq<PackedTransmit<L>>),
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
    /// Opens the queue that `config` describes, in `memory`, without a log.
    pub fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Self::with_log(memory, config, Unlogged)
    }
}

impl<L: DirtyLog> Dequeue<L> {
    /// Opens the queue that `config` describes, in `memory`; `log` records what changes there.
    pub fn with_log(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        Ok(match config.negotiated.format() {
            Format::Split => Self::Split(Transmitq::new(SplitTransmit::new(memory, config, log)?)),
            Format::Packed => Self::Packed(Transmitq::new(PackedTransmit::new(memory, config, log)?)),
        })
    }

    /// Fills `burst` with the frames that the guest sends, in order, as far as there is room. Frames longer than 2048
    /// bytes or in many pieces make the burst shorter. Returns the number of chains taken; if that exceeds the frames
    /// added, [`Dequeue::dropped`] tells why.
    #[inline]
    pub fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        each!(self, q => q.receive(burst))
    }

    /// Returns to the guest all chains that were taken and are not kept, and publishes them at once.
    #[inline]
    pub fn recycle(&self) {
        each!(self, q => q.recycle())
    }

    /// Allows keeping the chains of simple frames, unless this queue must return chains in order.
    pub fn allow_keeping(&mut self) {
        each!(self, q => q.allow_keeping())
    }

    /// Allows to exchange the buffers of simple frames for others of the group.
    pub fn allow_exchange(&mut self, joined: Joined) {
        each!(self, q => q.allow_exchange(joined))
    }

    /// Allows to exchange the pages of frames, unless this queue must return chains in order.
    pub fn allow_pages(&mut self, member: &Arc<PageMember>) {
        each!(self, q => q.allow_pages(member))
    }

    /// Returns the number of this queue, by which its frames are kept ([`Frames::keep`]); zero if they cannot be.
    pub fn id(&self) -> u64 {
        each!(self, q => q.kept().map_or(0, |kept| kept.id()))
    }

    /// Keeps the chains at these places of the burst ([`Burst::kept`]). Must be called before [`Dequeue::recycle`].
    #[inline]
    pub fn keep(&self, places: u32) {
        each!(self, q => q.kept().into_iter().for_each(|kept| kept.keep(places)))
    }

    /// Releases kept chains; the next [`Dequeue::recycle`] returns them to the guest.
    #[inline]
    pub fn release(&self, ids: impl IntoIterator<Item = u16>) {
        each!(self, q => if let Some(kept) = q.kept() {
            ids.into_iter().for_each(|id| kept.release(id));
        })
    }

    /// Returns the number of chains kept at present.
    #[inline]
    pub fn kept(&self) -> u16 {
        each!(self, q => q.kept().map_or(0, |kept| kept.out()))
    }

    /// Reports whether there is something to receive.
    pub fn has_work(&self) -> bool {
        each!(self, q => q.has_work())
    }

    /// Enables or disables kicks from the guest. After enabling them, call [`crate::ordering::before_asking`] and
    /// [`Dequeue::has_work`] before sleeping.
    pub fn set_kicks(&self, wanted: bool) {
        each!(self, q => q.ring().set_kicks(wanted))
    }

    /// Reports whether the guest wants to be notified of the chains recycled since the previous query. Call
    /// [`crate::ordering::before_asking`] between recycling and this.
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(self, q => q.ring().wants_notification())
    }

    /// Returns the number of chains dropped since the queue was created.
    pub fn dropped(&self) -> DropCounts {
        each!(self, q => q.dropped())
    }

    /// Returns how often [`Dequeue::receive`] left chains for its next call because its budget was spent.
    #[inline]
    pub fn cut_short(&self) -> u64 {
        each!(self, q => q.cut_short())
    }

    /// Returns the position from which a later device resumes, as in [`QueueConfig::base`]. Everything taken must be recycled.
    pub fn base(&self) -> u32 {
        each!(self, q => q.ring().base())
    }

    /// Returns the memory that its frames lie in.
    #[inline]
    pub fn memory(&self) -> &Memory {
        each!(self, q => &q.ring().areas().memory)
    }
}

/// The device side of a guest's receive queue: copies frames into posted buffers. It tells a [`DirtyLog`] what it writes,
/// and which buffers come back from a loan.
pub enum Enqueue<L: DirtyLog = Unlogged> {
    /// A split ring.
    Split(Receiveq<SplitRing<L>>),
    /// A packed ring.
    Packed(Receiveq<PackedRing<L>>),
}

impl Enqueue {
    /// Opens the queue that `config` describes, in `memory`, without a log.
    pub fn new(memory: Arc<Memory>, config: &QueueConfig) -> Result<Self, SetupError> {
        Self::with_log(memory, config, Unlogged)
    }
}

impl<L: DirtyLog> Enqueue<L> {
    /// Opens the queue that `config` describes, in `memory`; `log` records what changes there.
    pub fn with_log(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        Ok(match config.negotiated.format() {
            Format::Split => Self::Split(Receiveq::new(SplitRing::new(memory, config, log)?, config)),
            Format::Packed => Self::Packed(Receiveq::new(PackedRing::new(memory, config, log)?, config)),
        })
    }

    /// Returns a queue that delivers frames without copying them: the guest finds the old content of its buffers.
    #[cfg(feature = "analysis")]
    pub fn without_copies(self) -> Self {
        match self {
            Self::Split(queue) => Self::Split(queue.without_copies()),
            Self::Packed(queue) => Self::Packed(queue.without_copies()),
        }
    }

    /// Allows to deliver frames that lie in buffers of the group by exchanging these for posted ones.
    pub fn allow_exchange(&mut self, joined: Joined) {
        each!(self, q => q.allow(Hands::Group(joined)))
    }

    /// Allows to deliver frames by exchanging the pages that they lie in, unless this queue must return buffers in order.
    pub fn allow_pages(&mut self, member: Arc<PageMember>) {
        each!(self, q => q.allow(Hands::Pages(member)))
    }

    /// Reports whether frames are delivered without being read, as most of the last ones were.
    #[inline]
    pub fn exchanges(&self) -> bool {
        each!(self, q => q.exchanges())
    }

    /// Copies `frames` into posted buffers, in order, and publishes them at once.
    #[inline]
    pub fn transmit(&self, frames: Frames<'_>) -> Result<Delivered, Fatal> {
        each!(self, q => q.transmit(frames, Unjudged))
    }

    /// Does the same with frames that were judged: what was taken of them is delivered, even if their sender changes it meanwhile.
    #[inline]
    pub fn transmit_judged(&self, judged: Judged<'_>) -> Result<Delivered, Fatal> {
        let frames = judged.frames();
        match judged.taken() {
            Kind::Headers(taken) => each!(self, q => q.transmit(frames, taken)),
            Kind::Heads(taken) => each!(self, q => q.transmit(frames, taken)),
        }
    }

    /// Lends posted buffers, to be filled elsewhere with a virtio header and a frame: passes each of them to `borrower`, until
    /// the next one is not as `terms` say, or is refused. Returns the number of loans.
    #[inline]
    pub fn lend(&self, terms: Terms, borrower: &mut impl Borrower) -> Result<usize, Fatal> {
        each!(self, q => q.lend(terms, borrower))
    }

    /// Reads posted buffers ahead, so that more than `keep` are at hand ([`Enqueue::posted`]), if there are. With `fetch`, prefetches
    /// them: most will be copied to, not lent.
    pub fn read_ahead(&self, keep: u32, fetch: bool) -> Result<(), Fatal> {
        each!(self, q => q.read_ahead(keep, fetch))
    }

    /// Announces that no buffers will be lent for a while, so that those read ahead are prefetched.
    pub fn lend_no_more(&self) {
        each!(self, q => q.lend_no_more())
    }

    /// Returns the number of posted buffers that are at hand for frames: those that were read and not used or lent since.
    #[inline]
    pub fn posted(&self) -> u32 {
        each!(self, q => q.posted())
    }

    /// Returns the length of the next buffer's first run, if [`Enqueue::lend`] on the same terms refuses the buffer because
    /// that run is too short or the buffer is in pieces.
    #[inline]
    pub fn unfit(&self, terms: Terms) -> Option<u32> {
        each!(self, q => q.unfit(terms))
    }

    /// Adds the frames in `filled` loans to `burst`, marked as [`Origin::LENT`], without moving them, as long as there is room.
    /// If [`Enqueue::transmit`] then gets such a frame, it delivers it in this buffer, even if the frame was shortened or up to
    /// 16 bytes at its front were replaced; bytes that must move are moved within the buffer when the burst ends. It copies
    /// a [`Origin::PART`] of such a frame to another buffer. Returns the number of frames in loans.
    ///
    /// [`Origin::LENT`]: packet::Origin::LENT
    /// [`Origin::PART`]: packet::Origin::PART
    ///
    /// # Panics
    /// If `filled` fills the burst with other frames and then returns a loan.
    #[inline]
    pub fn receive_filled<'q>(&'q self, burst: &mut Burst<'_, 'q>, filled: &mut impl FilledLoans<'q>) -> usize {
        each!(self, q => q.receive_filled(burst, filled))
    }

    /// Makes the virtio header in `loan` invalid, to find out by [`Enqueue::has_valid_header`] whether the filler writes it.
    pub fn spoil_header(&self, loan: &Loan) {
        each!(self, q => q.spoil_header(loan))
    }

    /// Reports whether `loan` has a header of a frame in one buffer, without offloads.
    pub fn has_valid_header(&self, loan: &Loan) -> bool {
        each!(self, q => q.has_valid_header(loan))
    }

    /// Finishes the checksum of a frame that was written into `loan`, if its sender left it to others, before the frame is added to a
    /// burst. Reports whether it was unfinished.
    pub fn finish_checksum(&self, loan: &Loan, landing: &Landing<'_>, told: Told) -> bool {
        each!(self, q => q.finish_checksum(loan, landing, told))
    }

    /// Ends a burst of filled buffers: makes pending moves, publishes delivered buffers, and passes the others to `unclaimed`.
    #[inline]
    pub fn settle(&self, unclaimed: impl FnMut(Loan)) {
        each!(self, q => q.settle(unclaimed))
    }

    /// Moves the filled loans of the present burst to `aside`, before any frame of the burst is transmitted: its frames stay where
    /// they are, and [`Enqueue::settle`] ends the burst without them. Returns false, and moves nothing, if `aside` has others
    /// of this queue, or if frames of this burst were transmitted and have to be moved; the burst then goes on as it was.
    #[inline]
    #[must_use = "they are still the present burst's if it returns false"]
    pub fn set_aside(&self, aside: &mut Aside) -> bool {
        each!(self, q => q.set_aside(aside))
    }

    /// Makes the loans in `aside` those of the present burst: if [`Enqueue::transmit`] gets their frames, it delivers them in
    /// place, and [`Enqueue::settle`] ends the burst. Returns false, and takes nothing, if another queue lent them, or if the
    /// burst before has not ended.
    #[inline]
    #[must_use = "they are still aside if it returns false"]
    pub fn take_up(&self, aside: &mut Aside) -> bool {
        each!(self, q => q.take_up(aside))
    }

    /// Returns the number of filled loans that are set aside.
    pub fn aside(&self) -> usize {
        each!(self, q => q.aside())
    }

    /// Takes back an unfilled buffer, which is used next. Drops a loan of another queue.
    pub fn give_back(&self, loan: Loan) {
        each!(self, q => q.give_back(loan))
    }

    /// Returns all posted but unused buffers to the guest if any were lent. All loans must be back, also those set aside.
    pub fn close(&self) {
        each!(self, q => q.close())
    }

    /// Enables or disables kicks, as [`Dequeue::set_kicks`]; a switch needs none for posted buffers.
    pub fn set_kicks(&self, wanted: bool) {
        each!(self, q => q.ring().set_kicks(wanted))
    }

    /// Reports whether the guest wants a notification, as [`Dequeue::wants_notification`].
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(self, q => q.ring().wants_notification())
    }

    /// Returns the number of chains returned without a frame since the queue was created.
    pub fn dropped(&self) -> DropCounts {
        each!(self, q => q.dropped())
    }

    /// Returns the position from which a later device resumes, as in [`QueueConfig::base`].
    pub fn base(&self) -> u32 {
        each!(self, q => q.ring().base())
    }

    /// Returns the memory that its buffers lie in.
    #[inline]
    pub fn memory(&self) -> &Memory {
        each!(self, q => &q.ring().areas().memory)
    }
}
