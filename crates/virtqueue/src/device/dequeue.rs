//! A guest's transmit queue: common to both ring formats except for finding and returning chains.

mod splice;

pub use splice::SendTerms;

use super::DropCounts;
use super::keep::Kept;
use super::packed::PackedTransmit;
use super::ring::{Common, DeviceRing, Either, each};
use super::split::SplitTransmit;
use super::transmit::{Intake, TransmitRing};
use crate::config::{Format, QueueConfig, Returns};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Joined, PageMember};
use crate::memory::{DirtyLog, Memory, Unlogged};
use crate::offload;
use packet::{Burst, Offer};
use std::sync::Arc;
use trials::Measured;

/// The device side of a guest's transmit queue: takes frames without copying them. It tells a [`DirtyLog`] of all that it writes.
pub struct Dequeue<L: DirtyLog = Unlogged> {
    ring: Either<SplitTransmit<L>, PackedTransmit<L>>,
    /// Chains that are kept by a sender, returned with other buffers, or held, if any of these is allowed.
    kept: Option<Kept>,
    /// Holds the function's seat in its group as long as its queues run.
    _joined: Option<Joined>,
    measured: Option<Measured>,
    intake: Intake,
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
        let ring = match config.negotiated.format() {
            Format::Split => Either::Split(SplitTransmit::new(memory, config, log)?),
            Format::Packed => Either::Packed(PackedTransmit::new(memory, config, log)?),
        };
        let intake = Intake::new(offload::of_driver(config.negotiated));
        Ok(Dequeue { ring, kept: None, _joined: None, measured: None, intake })
    }

    /// Allows keeping the chains of simple frames, unless this queue must return chains in order.
    pub fn allow_keeping(&mut self) {
        if self.common().returns == Returns::AnyOrder {
            self.recorded().allow();
        }
    }

    /// Lets bursts be held ([`Dequeue::hold`]), or no longer. Every burst has ended, and all that was held was returned.
    pub fn set_holding(&mut self, holds: bool) {
        if holds {
            self.recorded().set_holding(true);
        } else if let Some(kept) = &mut self.kept {
            kept.set_holding(false);
            self.kept.take_if(|kept| kept.only_holds());
        }
    }

    /// Records the chains that are taken.
    fn recorded(&mut self) -> &mut Kept {
        let (size, returns) = (self.common().areas.size, self.common().returns);
        self.kept.get_or_insert_with(|| Kept::new(size, returns))
    }

    /// Allows to exchange the buffers of simple frames for others of the group.
    pub fn allow_exchange(&mut self, joined: Joined) {
        self.offer(joined.offer());
        self.measured = joined.measured();
        self._joined = Some(joined);
    }

    /// Allows to exchange the pages of frames, unless this queue must return chains in order.
    pub fn allow_pages(&mut self, member: &Arc<PageMember>) {
        if self.common().returns == Returns::AnyOrder {
            self.offer(member.offer());
        }
    }

    /// Offers the buffers or pages that frames lie in.
    fn offer(&mut self, offer: Offer) {
        self.recorded().set_offer(offer);
    }

    /// Fills `burst` with the frames that the guest sends, in order, as far as there is room. Frames longer than 2048
    /// bytes or in many pieces make the burst shorter. Returns the number of chains taken; if that exceeds the frames
    /// added, [`Dequeue::dropped`] tells why. [`Dequeue::read_headers`] comes next.
    #[inline]
    pub fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        each!(&self.ring, ring => self.receive_from(ring, burst))
    }

    /// Finds the work that the guest left on the frames that were just received, and drops those on which it must not leave that:
    /// the ones of `burst` from `first` on. Apart from [`Dequeue::receive`], whose loop has no register left for it.
    #[inline]
    pub fn read_headers(&self, burst: &mut Burst<'_, '_>, first: usize) {
        if self.intake.reads_headers() {
            self.intake.read_headers(burst, first);
        }
    }

    /// Receives a burst. Compiled once with and once without keeping, to avoid a check for every frame.
    #[inline(always)]
    fn receive_from<'q>(&'q self, ring: &'q impl TransmitRing, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        match (&self.kept, &self.measured) {
            (None, _) => ring.take(burst, None, &self.intake),
            (Some(kept), None) => ring.take(burst, Some(kept), &self.intake),
            (Some(kept), Some(measured)) => {
                let began = measured.begin();
                let taken = ring.take(burst, Some(kept), &self.intake)?;
                measured.received(taken, burst.bytes(), began);
                Ok(taken)
            }
        }
    }

    /// Returns to the guest all chains that were taken and are not kept, and publishes them at once.
    #[inline(always)]
    pub fn recycle(&self) {
        each!(&self.ring, ring => ring.recycle(self.kept.as_ref()));
        if let Some(measured) = &self.measured {
            measured.end(self.kept.as_ref().map_or(0, Kept::given));
        }
    }

    /// Returns the number of this queue, by which its frames are kept ([`packet::Frames::keep`]); zero if they cannot be.
    pub fn id(&self) -> u64 {
        self.kept.as_ref().map_or(0, Kept::id)
    }

    /// Keeps the chains at these places of the burst ([`Burst::kept`]). Must be called before [`Dequeue::recycle`].
    #[inline]
    pub fn keep(&self, places: u32) {
        self.kept.iter().for_each(|kept| kept.keep(places));
    }

    /// Releases kept chains; the next [`Dequeue::recycle`] returns them to the guest.
    #[inline]
    pub fn release(&self, ids: impl IntoIterator<Item = u16>) {
        if let Some(kept) = &self.kept {
            ids.into_iter().for_each(|id| kept.release(id));
        }
    }

    /// Holds the chains of the present burst, if that is allowed ([`Dequeue::set_holding`]): [`Dequeue::recycle`] does not return them.
    /// Appends what [`Dequeue::give_back`] needs to `held`: an entry for each chain.
    #[inline]
    pub fn hold(&self, held: &mut Vec<u16>) {
        self.kept.iter().for_each(|kept| kept.hold(held));
    }

    /// Gives held chains back, in any order of bursts; the next [`Dequeue::recycle`] returns them to the guest. If the guest demands
    /// its own order, they wait for older ones.
    #[inline]
    pub fn give_back(&self, held: &[u16]) {
        self.kept.iter().for_each(|kept| kept.release_held(held));
    }

    /// Returns the number of chains kept at present.
    #[inline]
    pub fn kept(&self) -> u16 {
        self.kept.as_ref().map_or(0, Kept::out)
    }

    /// Reports whether there is something to receive.
    pub fn has_work(&self) -> bool {
        each!(&self.ring, ring => ring.has_work())
    }

    /// Enables or disables kicks from the guest. After enabling them, call [`crate::ordering::before_asking`] and
    /// [`Dequeue::has_work`] before sleeping.
    pub fn set_kicks(&self, wanted: bool) {
        each!(&self.ring, ring => ring.ring().set_kicks(wanted));
    }

    /// Reports whether the guest wants to be notified of the chains recycled since the previous query. Call
    /// [`crate::ordering::before_asking`] between recycling and this.
    #[inline]
    pub fn wants_notification(&self) -> bool {
        each!(&self.ring, ring => ring.ring().wants_notification())
    }

    /// Returns the number of chains dropped since the queue was created.
    pub fn dropped(&self) -> DropCounts {
        self.intake.dropped()
    }

    /// Returns how often [`Dequeue::receive`] left chains for its next call because its budget was spent.
    #[inline]
    pub fn cut_short(&self) -> u64 {
        self.intake.cut_short()
    }

    /// Returns the number of descriptors.
    pub fn size(&self) -> u16 {
        self.common().areas.size
    }

    /// Returns the position from which a later device resumes, as in [`QueueConfig::base`]. Everything taken must be recycled.
    pub fn base(&self) -> u32 {
        each!(&self.ring, ring => ring.ring().base())
    }

    /// Returns the memory that its frames lie in.
    #[inline]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.common().areas.memory
    }

    #[inline(always)]
    fn common(&self) -> &Common<L> {
        each!(&self.ring, ring => ring.ring().common())
    }
}
