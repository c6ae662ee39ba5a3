//! A guest's receive queue: common to both ring formats except for finding and returning buffers.

mod lending;
mod pages;
mod scatter;
mod splice;

pub use splice::ReceiveTerms;

use super::DropCounts;
use super::budget::Budget;
use super::header::write_header;
use super::lend::{self, Filled};
use super::packed::PackedRing;
use super::posted::PostedQueue;
use super::receive::{Prefetch, ReceiveRing};
use super::ring::{Common, DeviceRing, Either, each};
use super::split::SplitRing;
use crate::config::{Format, QueueConfig, Returns, features};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Copied, CopyAll, Handover, Instead, Joined, PageMember, Tally};
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Memory, Unlogged, Writer};
use crate::offload;
use packet::copy::Copier;
use packet::offload::Offloads;
use packet::{Frames, Judged, Kind, Taken, Unjudged};
use std::cell::Cell;
use std::sync::Arc;

/// Number of buffers read and prefetched before frames fill them. Measured: +40 to 58 % when the cores are far from
/// each other, 5 to 12 % when near.
const LOOK_AHEAD: u32 = 64;

/// Values of `LENT` of [`Enqueue::deliver`].
const NONE_LENT: bool = false;
const SOME_LENT: bool = true;

/// Values of `LEFT` of [`Enqueue::deliver`].
const NOTHING_LEFT: bool = false;
const WORK_LEFT: bool = true;

/// Result of delivering some frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Frames delivered.
    pub frames: u32,
    /// Bytes of the delivered frames.
    pub bytes: u64,
    /// Frames dropped because the guest had posted too few buffers.
    pub no_buffers: u32,
    /// Frames dropped because no number of the guest's buffers holds them: longer than one buffer if those are not mergeable.
    pub too_long: u32,
    /// Frames dropped because the guest's buffers are too fragmented for the budget of one call.
    pub over_budget: u32,
}

/// The device side of a guest's receive queue: copies frames into posted buffers. It tells a [`DirtyLog`] of all that it
/// writes, and of buffers that come back from a loan.
pub struct Enqueue<L: DirtyLog = Unlogged> {
    pub(super) ring: Either<SplitRing<L>, PackedRing<L>>,
    posted: PostedQueue,
    /// Budgets left for the present call: for reading descriptors, and for filling or returning buffers.
    reading: Budget,
    filling: Budget,
    copier: Copier,
    mergeable: bool,
    takes: Offloads,
    size: u16,
    /// How frames may change hands, if they may, and whether most of the last ones did.
    hands: Option<Hands>,
    exchanges: Cell<bool>,
    dropped: Cell<DropCounts>,
    /// Identifies this queue on its loans.
    id: u64,
    lends: Cell<Lends>,
    filled: Filled,
    /// Number of filled loans that are set aside.
    aside: Cell<usize>,
}

/// How frames change hands instead of being copied.
pub(super) enum Hands {
    /// By their buffers, which are those of a group.
    Group(Joined),
    /// By the pages that they lie in.
    Pages(Arc<PageMember>),
}

/// Whether a queue lends. A queue that ever did has returned buffers in another order than they were posted in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lends {
    Never,
    /// It did, and now keeps all buffers for frames that are copied.
    Before,
    Now,
}

/// Result of looking for a frame's buffers at the front of the posted ones.
enum Room {
    /// The frame fits into these buffers, in these chains.
    Fits { buffers: u32, chains: u16 },
    /// There are too few buffers.
    TooFew,
    /// No number of buffers would do.
    Never,
    /// There may be enough buffers, but in too many pieces for this call.
    OverBudget,
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
        let ring = match config.negotiated.format() {
            Format::Split => Either::Split(SplitRing::new(memory, config, log)?),
            Format::Packed => Either::Packed(PackedRing::new(memory, config, log)?),
        };
        Ok(Enqueue {
            ring,
            posted: PostedQueue::new(config.size),
            reading: Budget::new(),
            filling: Budget::new(),
            copier: Copier::detect(),
            mergeable: config.negotiated.has(features::MRG_RXBUF),
            takes: offload::of_device(config.negotiated),
            size: config.size,
            hands: None,
            exchanges: Cell::new(false),
            dropped: Cell::default(),
            id: lend::queue_id(),
            lends: Cell::new(Lends::Never),
            filled: Filled::new(),
            aside: Cell::new(0),
        })
    }

    /// Returns a queue that delivers frames without copying them: the guest finds the old content of its buffers.
    #[cfg(feature = "analysis")]
    pub fn without_copies(self) -> Self {
        Enqueue { copier: Copier::omitting(), ..self }
    }

    /// Allows to deliver frames that lie in buffers of the group by exchanging these for posted ones.
    pub fn allow_exchange(&mut self, joined: Joined) {
        self.hands = Some(Hands::Group(joined));
    }

    /// Allows to deliver frames by exchanging the pages that they lie in, unless this queue must return buffers in order.
    pub fn allow_pages(&mut self, member: Arc<PageMember>) {
        self.hands = (self.common().returns == Returns::AnyOrder).then_some(Hands::Pages(member));
    }

    /// Returns the work that frames may leave to the guest.
    #[inline]
    pub fn takes(&self) -> Offloads {
        self.takes
    }

    /// Reports whether frames are delivered without being read, as most of the last ones were.
    #[inline]
    pub fn exchanges(&self) -> bool {
        self.exchanges.get()
    }

    /// Copies `frames` into posted buffers, in order, and publishes them at once.
    #[inline]
    pub fn transmit(&self, frames: Frames<'_>) -> Result<Delivered, Fatal> {
        each!(&self.ring, ring => self.transmit_to(ring, frames, Unjudged))
    }

    /// Does the same with frames that were judged: it delivers the bytes that were taken, even if their sender changes the frames
    /// meanwhile.
    #[inline]
    pub fn transmit_judged(&self, judged: Judged<'_>) -> Result<Delivered, Fatal> {
        let frames = judged.frames();
        match judged.taken() {
            Kind::Headers(taken) => each!(&self.ring, ring => self.transmit_to(ring, frames, taken)),
            Kind::Heads(taken) => each!(&self.ring, ring => self.transmit_to(ring, frames, taken)),
        }
    }

    /// Delivers `frames` by `ring`: the queue's own, as the call knows its format; or one around it, in a test.
    #[inline(always)]
    pub(super) fn transmit_to<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
    ) -> Result<Delivered, Fatal> {
        if !frames.offloads().is_none() {
            return if self.filled.is_empty() {
                self.deliver::<_, NONE_LENT, WORK_LEFT>(ring, frames, taken, &mut CopyAll)
            } else {
                self.deliver::<_, SOME_LENT, WORK_LEFT>(ring, frames, taken, &mut CopyAll)
            };
        }
        match &self.hands {
            Some(Hands::Group(joined)) if self.filled.is_empty() => self.exchange(ring, frames, taken, joined),
            Some(Hands::Pages(member)) if self.filled.is_empty() => self.exchange_pages(ring, frames, taken, member),
            _ if self.filled.is_empty() => {
                self.deliver::<_, NONE_LENT, NOTHING_LEFT>(ring, frames, taken, &mut CopyAll)
            }
            _ => self.deliver::<_, SOME_LENT, NOTHING_LEFT>(ring, frames, taken, &mut CopyAll),
        }
    }

    /// Delivers `frames`, as far as possible without copying them.
    #[inline(always)]
    fn exchange<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        joined: &Joined,
    ) -> Result<Delivered, Fatal> {
        let (done, mut tally, why) = match joined.exchange(&frames) {
            Ok(mut exchanging) => {
                // Members trust each other: a receiver takes the risk that the sender still changes the buffer.
                let done = self.deliver::<_, NONE_LENT, NOTHING_LEFT>(ring, frames, taken, &mut exchanging)?;
                (done, exchanging.tally(), Copied::Changed)
            }
            Err(reason) => (
                self.deliver::<_, NONE_LENT, NOTHING_LEFT>(ring, frames, taken, &mut CopyAll)?,
                Tally::default(),
                reason,
            ),
        };
        tally.add_copied(why, done.frames - tally.frames());
        self.exchanges.set(2 * tally.exchanged() > done.frames);
        joined.count(frames.offer(), tally);
        Ok(done)
    }

    /// Delivers `frames`. With `LENT`, some of them may lie in buffers of this queue; with `LEFT`, their sender may have left work
    /// on some, so that their headers say so. `handover` may exchange the buffers of frames
    /// for posted ones. The bytes that were `taken` of a frame are written over its copy.
    #[inline(always)]
    fn deliver<'b, R: ReceiveRing, const LENT: bool, const LEFT: bool>(
        &self,
        ring: &R,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        handover: &mut impl Handover,
    ) -> Result<Delivered, Fatal> {
        let mut done = Delivered::default();
        let writer = self.writer();
        let wanted = frames.len() as u32;
        self.reading.renew();
        self.filling.renew();
        if !LENT && self.posted.len() < wanted {
            ring.look_ahead(&self.posted, wanted, Prefetch::when(!self.exchanges.get()), &self.reading)?;
        }
        let (mut used, mut front) = (ring.used(), self.posted.front());
        let mut rest = frames.as_slice().iter();
        while let Some(frame) = rest.next() {
            let i = frames.len() - rest.len() - 1;
            let need = frame.len() + NET_HEADER;
            if LENT && let Some(claimed) = self.filled.claim(&frames, frame) {
                if claimed.lacks_header {
                    // SAFETY: the buffer was checked to be mapped for its `len`, which is `need` or more.
                    unsafe { write_header(writer, claimed.buffer.ptr) };
                }
                ring.put_used(&mut used, claimed.buffer, need, Instead::OWN);
                done.bytes += u64::from(frame.len());
                continue;
            }
            let buffer = front.next().map(Cell::get);
            if let Some(buffer) = buffer
                && buffer.slots == 1
                && buffer.len >= need
                && frame.is_contiguous()
                && (!LEFT || frame.offload().is_none())
            {
                let instead = handover.exchange(frame, buffer.ptr);
                if instead == Instead::OWN {
                    // SAFETY: the buffer was checked to be mapped for its `len`, which is `need` or more, and the
                    // frame's first segment is all of it.
                    unsafe {
                        write_header(writer, buffer.ptr);
                        let payload = buffer.ptr.add(NET_HEADER as usize);
                        let (from, len) = (frame.first().as_ptr(), frame.len() as usize);
                        writer.copy_frame(self.copier, payload, from, len, taken, i);
                    }
                }
                ring.put_used(&mut used, buffer, need, instead);
                done.bytes += u64::from(frame.len());
                continue;
            }
            // The rest is rare, and works on the queue itself.
            ring.set_used(used);
            if buffer.is_some() {
                front.back();
            }
            self.posted.pop_to(&front);
            let room = self.scatter(ring, &frames, i, taken)?;
            (used, front) = (ring.used(), self.posted.front());
            match room {
                Room::Fits { .. } => done.bytes += u64::from(frame.len()),
                Room::Never => done.too_long += 1,
                // Later frames may take the fast path.
                Room::OverBudget => done.over_budget += 1,
                // Later frames may already lie in their buffers.
                Room::TooFew if LENT => done.no_buffers += 1,
                Room::TooFew => {
                    done.no_buffers = wanted - i as u32;
                    break;
                }
            }
        }
        done.frames = wanted - done.no_buffers - done.too_long - done.over_budget;
        ring.set_used(used);
        self.posted.pop_to(&front);
        if LENT {
            // Other ports may still have to copy from these buffers: `Enqueue::settle` publishes them to the guest.
            return Ok(done);
        }
        ring.publish();
        // Only after a burst: reading ahead while idle would steal cache lines from a guest that is posting.
        let prefetch = Prefetch::when(self.lends.get() != Lends::Now && !self.exchanges.get());
        ring.look_ahead(&self.posted, LOOK_AHEAD, prefetch, &self.reading)?;
        Ok(done)
    }

    /// Enables or disables kicks, as [`Dequeue::set_kicks`]; a switch needs none for posted buffers.
    ///
    /// [`Dequeue::set_kicks`]: super::Dequeue::set_kicks
    pub fn set_kicks(&self, wanted: bool) {
        each!(&self.ring, ring => ring.set_kicks(wanted));
    }

    /// Reports whether the guest wants a notification, as [`Dequeue::wants_notification`].
    ///
    /// [`Dequeue::wants_notification`]: super::Dequeue::wants_notification
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(&self.ring, ring => ring.wants_notification())
    }

    /// Returns the number of chains returned without a frame since the queue was created.
    pub fn dropped(&self) -> DropCounts {
        self.dropped.get()
    }

    /// Returns the position from which a later device resumes, as in [`QueueConfig::base`].
    pub fn base(&self) -> u32 {
        each!(&self.ring, ring => ring.base())
    }

    /// Returns the number of descriptors.
    #[inline]
    pub fn size(&self) -> u16 {
        self.common().areas.size
    }

    /// Returns the memory that its buffers lie in.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.common().areas.memory
    }

    #[inline(always)]
    fn common(&self) -> &Common<L> {
        each!(&self.ring, ring => ring.common())
    }

    #[inline(always)]
    fn writer(&self) -> &Writer<L> {
        &self.common().writer
    }
}
