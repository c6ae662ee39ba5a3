//! The ring of a guest's transmit queue, of either format, and the frames of its chains.

use super::DropCounts;
use super::budget::Budget;
use super::chain::Access;
use super::keep::Kept;
use super::ring::{DeviceRing, Head};
use super::taken::TakenChain;
use crate::error::Fatal;
use crate::layout::{Descriptor, NET_HEADER};
use crate::memory::Memory;
use packet::copy::prefetch;
use packet::{Burst, MAX_BURST_BYTES, MAX_FRAME, MIN_FRAME, Origin, Segment, USUAL_FRAME};
use std::cell::Cell;

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

/// Turns chains into frames of a burst, and counts those that are none.
#[derive(Default)]
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

    /// Returns the number of chains dropped.
    pub(super) fn dropped(&self) -> DropCounts {
        self.dropped.get()
    }

    /// Returns the number of calls that left chains for the next one.
    #[inline]
    pub(super) fn cut_short(&self) -> u64 {
        self.cut_short.get()
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
