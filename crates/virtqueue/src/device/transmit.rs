//! The ring of a guest's transmit queue, of either format, and the frames of its chains.

use super::DropCounts;
use super::budget::Budget;
use super::chain::Access;
use super::keep::Kept;
use super::left::left_by;
use super::ring::{DeviceRing, Head, Usual};
use super::taken::TakenChain;
use crate::config::Returns;
use crate::error::{Dropped, Fatal};
use crate::layout::{Descriptor, NET_HEADER};
use crate::memory::Memory;
use packet::copy::prefetch;
use packet::offload::Offloads;
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

    /// Records a chain to be returned, the next one of this call after `place` others.
    fn record(&self, place: usize, chain: TakenChain);

    /// Returns all taken chains to the guest and publishes them at once: those that `kept` gives back, if there is one.
    fn recycle(&self, kept: Option<&Kept>);
}

/// An entry of a queue's ring.
type Entry<T> = <<T as TransmitRing>::Ring as DeviceRing>::Entry;

/// Turns chains into frames of a burst, and counts those that are none.
#[derive(Default)]
pub(super) struct Intake {
    /// Work that the driver may leave: headers are read only if it may leave any.
    allowed: Offloads,
    dropped: Cell<DropCounts>,
    cut_short: Cell<u64>,
}

impl Intake {
    /// Returns one of a driver that may leave this work.
    pub(super) fn new(allowed: Offloads) -> Intake {
        Intake { allowed, ..Intake::default() }
    }

    /// Reports whether the headers of frames are read.
    #[inline(always)]
    pub(super) fn reads_headers(&self) -> bool {
        !self.allowed.is_none()
    }

    /// Reads the headers of the frames of `burst` from the one at `first` on, and drops those that leave what they must not.
    #[cold]
    pub(super) fn read_headers(&self, burst: &mut Burst<'_, '_>, first: usize) {
        burst.describe(first, |frame| {
            // The header of a frame in several buffers was read with them.
            if frame.is_spread() {
                return Some(frame.offload());
            }
            let start = frame.first().as_ptr().wrapping_sub(NET_HEADER as usize);
            // SAFETY: `frame_of` found the frame behind a header, in one buffer that is mapped as long as the burst borrows from the
            // memory.
            let header = unsafe { Segment::new(start, NET_HEADER) }.read()?;
            let left = left_by(header, self.allowed, frame.len(), |head| frame.first().copy_to(head));
            if left.is_none() {
                DropCounts::count(&self.dropped, Dropped::BadOffload);
            }
            left
        });
    }

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
            burst.push_from(frame, origin(place, chain.id));
            return Ok(Some(chain));
        }
        let walked = ring.walk(index, first, Access::Read)?;
        budget.spend(walked.descriptors);
        Ok(walked.push_frame(burst, &self.dropped, self.allowed).then_some(walked.chain))
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

/// Adds the frames of a `run` of chains, for which `burst` has room, as long as these are usual ones, neither short nor long. The first
/// of them is the one after `taken`; returns how many are taken then.
#[inline(always)]
pub(super) fn push_usual<'q, T: TransmitRing>(
    queue: &'q T,
    burst: &mut Burst<'_, 'q>,
    run: &[Entry<T>],
    usual: Usual,
    mut taken: usize,
    kept: Option<&Kept>,
) -> usize {
    let ring = queue.ring();
    let memory = &*ring.common().areas.memory;
    let unread_from = burst.unread_from();
    let returns_each = returns_each(ring, kept);
    let mut burst = burst.fill();
    for entry in run {
        let Some((descriptor, id)) = ring.read(entry) else { break };
        if !usual.is(descriptor) {
            break;
        }
        let Some(frame) = frame_of(memory, descriptor, USUAL_FRAME) else { break };
        if returns_each {
            T::Ring::fetch_to_return(entry);
        }
        // Only a frame that may be kept, or change hands, can leave without being read.
        if kept.is_none() || frame.len() < unread_from {
            prefetch(frame.as_ptr());
        }
        burst.push_from(frame, origin(kept.map(|_| taken), id));
        record(queue, taken, TakenChain { id, slots: 1 }, kept);
        taken += 1;
    }
    taken
}

/// Reports whether chains are likely to be returned one by one.
#[inline(always)]
pub(super) fn returns_each(ring: &impl DeviceRing, kept: Option<&Kept>) -> bool {
    kept.map_or(ring.common().returns == Returns::AnyOrder, Kept::returns_each)
}

/// Records a chain that was taken as the next one after `place` others.
#[inline(always)]
pub(super) fn record(queue: &impl TransmitRing, place: usize, chain: TakenChain, kept: Option<&Kept>) {
    match kept {
        None => queue.record(place, chain),
        Some(kept) => kept.take(place, chain),
    }
}

/// Reports whether a call has cost enough, so that further chains have to wait for the next one.
pub(super) fn is_enough(burst: &Burst<'_, '_>, budget: &Budget) -> bool {
    budget.is_spent() || burst.bytes() >= MAX_BURST_BYTES
}

#[inline(always)]
fn origin(place: Option<usize>, id: u16) -> Origin {
    place.map_or(Origin::OTHER, |place| Origin { place: place as u16, id })
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
