//! A guest's transmit queue: common to both ring formats except for finding and returning chains.

use super::DropCounts;
use super::budget::Budget;
use super::chain::Access;
use super::keep::Kept;
use super::packed::PackedTransmit;
use super::ring::{Common, DeviceRing, Either, Head, each};
use super::split::SplitTransmit;
use super::taken::TakenChain;
use crate::config::{Format, QueueConfig, Returns};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Joined, Measured, PageMember};
use crate::layout::{Descriptor, NET_HEADER};
use crate::memory::{DirtyLog, Memory, Unlogged};
use packet::copy::prefetch;
use packet::{Burst, MAX_BURST_BYTES, MAX_FRAME, MIN_FRAME, Offer, Origin, Segment, USUAL_FRAME};
use std::cell::Cell;
use std::sync::Arc;

/// Operations on a transmit queue that differ between the ring formats.
pub(super) trait TransmitRing {
    type Ring: DeviceRing;

    fn ring(&self) -> &Self::Ring;

    /// Reports whether the guest has made a chain available.
    fn has_work(&self) -> bool;

    /// Adds the frames of available chains to `burst`, and records the chains in `kept` if there is one. Returns their
    /// number.
    fn take<'q>(&'q self, burst: &mut Burst<'_, 'q>, kept: Option<&'q Kept>, intake: &Intake) -> Result<usize, Fatal>;

    /// Returns all taken chains to the guest and publishes them at once: those that `kept` gives back, if there is one.
    fn recycle(&self, kept: Option<&Kept>);
}

/// The device side of a guest's transmit queue: takes frames without copying them. It tells a [`DirtyLog`] of all that it writes.
pub struct Dequeue<L: DirtyLog = Unlogged> {
    ring: Either<SplitTransmit<L>, PackedTransmit<L>>,
    /// Chains kept by a sender, or returned with other buffers, if either is allowed.
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
        let intake = Intake { dropped: Cell::default(), cut_short: Cell::new(0) };
        Ok(Dequeue { ring, kept: None, _joined: None, measured: None, intake })
    }

    /// Allows keeping the chains of simple frames, unless this queue must return chains in order.
    pub fn allow_keeping(&mut self) {
        let Common { areas, returns, .. } = self.common();
        if *returns == Returns::AnyOrder {
            self.kept = Some(Kept::new(areas.size, *returns));
        }
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
        let (size, returns) = (self.common().areas.size, self.common().returns);
        self.kept.get_or_insert_with(|| Kept::new(size, returns)).set_offer(offer);
    }

    /// Fills `burst` with the frames that the guest sends, in order, as far as there is room. Frames longer than 2048
    /// bytes or in many pieces make the burst shorter. Returns the number of chains taken; if that exceeds the frames
    /// added, [`Dequeue::dropped`] tells why.
    #[inline]
    pub fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> Result<usize, Fatal> {
        each!(&self.ring, ring => self.receive_from(ring, burst))
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
        self.intake.dropped.get()
    }

    /// Returns how often [`Dequeue::receive`] left chains for its next call because its budget was spent.
    #[inline]
    pub fn cut_short(&self) -> u64 {
        self.intake.cut_short.get()
    }

    /// Returns the position from which a later device resumes, as in [`QueueConfig::base`]. Everything taken must be recycled.
    pub fn base(&self) -> u32 {
        each!(&self.ring, ring => ring.ring().base())
    }

    /// Returns the memory that its frames lie in.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.common().areas.memory
    }

    #[inline(always)]
    fn common(&self) -> &Common<L> {
        each!(&self.ring, ring => ring.ring().common())
    }
}

/// Turns chains into frames of a burst, and counts those that are none.
pub(super) struct Intake {
    dropped: Cell<DropCounts>,
    cut_short: Cell<u64>,
}

impl Intake {
    /// Adds the frame of the chain that starts with `first` at `index`: a long one or one of several buffers. Or drops the
    /// chain. Returns `None` if the burst has no room for it. A chain that may be kept has a `place` in the burst.
    #[cold]
    pub(super) fn push_unusual<'q, R: DeviceRing>(
        &self,
        ring: &'q R,
        burst: &mut Burst<'_, 'q>,
        index: u16,
        first: Descriptor,
        place: Option<usize>,
        budget: &Budget,
    ) -> Result<Option<TakenChain>, Fatal> {
        if let Some(chain) = R::single(Head { index, descriptor: first }, Access::Read)
            && let Some(frame) = frame_of(&ring.common().areas.memory, first, MAX_FRAME)
        {
            burst.push_from(frame, origin(place, chain));
            return Ok(Some(chain));
        }
        let walked = ring.walk(index, first, Access::Read)?;
        budget.spend(walked.descriptors);
        Ok(walked.push_frame(burst, &self.dropped).then_some(walked.chain))
    }

    /// Counts a call that left chains for the next one because it had cost enough.
    pub(super) fn count_cut_short(&self) {
        self.cut_short.set(self.cut_short.get() + 1);
    }
}

/// Adds the frame of a chain of one buffer, unless it is short or long: returns the chain if it did. A chain that may be
/// kept has a `place` in the burst.
#[inline(always)]
pub(super) fn push_usual<'q, R: DeviceRing>(
    ring: &'q R,
    burst: &mut Burst<'_, 'q>,
    head: Head,
    place: Option<usize>,
) -> Option<TakenChain> {
    let chain = R::single(head, Access::Read)?;
    let frame = frame_of(&ring.common().areas.memory, head.descriptor, USUAL_FRAME)?;
    // Only a frame that may be kept, or change hands, can leave without being read.
    if place.is_none() || frame.len() < burst.unread_from() {
        prefetch(frame.as_ptr());
    }
    burst.push_from(frame, origin(place, chain));
    Some(chain)
}

/// Reports whether a call has cost enough, so that further chains have to wait for the next one.
pub(super) fn is_enough(burst: &Burst<'_, '_>, budget: &Budget) -> bool {
    budget.is_spent() || burst.bytes() >= MAX_BURST_BYTES
}

#[inline(always)]
fn origin(place: Option<usize>, chain: TakenChain) -> Origin {
    place.map_or(Origin::OTHER, |place| Origin { place: place as u8, id: chain.id })
}

/// Returns the frame in `buffer`, behind a virtio header, if it has a legal length of at most `longest` bytes.
#[inline(always)]
fn frame_of(memory: &Memory, buffer: Descriptor, longest: u32) -> Option<Segment<'_>> {
    let len = buffer.tail.len().wrapping_sub(NET_HEADER);
    if !(MIN_FRAME..=longest).contains(&len) {
        return None;
    }
    let ptr = memory.translate(buffer.addr, buffer.tail.len().into())?;
    // SAFETY: the buffer was just checked to be mapped, by a memory that the frame borrows.
    Some(unsafe { Segment::new(ptr.as_ptr().add(NET_HEADER as usize), len) })
}
