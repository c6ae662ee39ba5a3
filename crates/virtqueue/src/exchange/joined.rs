//! A queue of a member, as the device exchanges through it.

use super::Geometry;
use super::counts::{Copied, Tally};
use super::group::Seat;
use super::instead::Instead;
use crate::layout::NET_HEADER;
use crate::memory::Memory;
use packet::{Frame, Frames, Offer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use trials::Measured;

/// A queue whose function has joined a group, and shares the group's memory.
#[derive(Clone, Debug)]
pub struct Joined {
    seat: Arc<Seat>,
    /// Number of the port in the group.
    port: u16,
    /// Address of the group's memory, as this session has it mapped.
    start: usize,
}

impl Joined {
    /// Returns the queue of a function that shares `memory`, at `port` of the group; `None` if the group's memory is not whole
    /// in it.
    pub fn find(seat: &Arc<Seat>, port: u16, memory: &Memory) -> Option<Joined> {
        let group = seat.group();
        let bytes = group.options().geometry.bytes();
        let region = memory.regions().iter().find(|region| region.offset == 0 && region.is_of(group.file()))?;
        let start = memory.translate(region.guest_addr, bytes)?.addr().get();
        (region.len >= bytes).then(|| Joined { seat: seat.clone(), port, start })
    }

    /// Returns a record by which the frames of this queue are exchanged.
    pub(crate) fn offer(&self) -> Offer {
        Offer::new(self.seat.group().grid().id(), self.seat.number(), self.port, self.start)
    }

    /// Returns this queue's part in finding the length from which frames are exchanged, unless it is configured.
    pub(crate) fn measured(&self) -> Option<Measured> {
        let group = self.seat.group();
        group.options().threshold.is_none().then(|| Measured::new(group.trials().clone()))
    }

    /// Returns how frames of a burst are exchanged for buffers of this queue; or the reason why not.
    #[inline(always)]
    pub(crate) fn exchange<'b>(&'b self, frames: &Frames<'b>) -> Result<Exchanging<'b>, Copied> {
        let group = &**self.seat.group();
        let threshold = group.trials().now();
        match frames.offer().filter(|offer| offer.group() == group.grid().id()) {
            None => Err(Copied::Outside),
            Some(_) if !frames.may_exchange() => Err(Copied::Shared),
            Some(_) if frames.as_slice().iter().all(|frame| frame.len() < threshold) => Err(Copied::Short),
            Some(offer) => Ok(Exchanging {
                offer,
                owners: &group.owners,
                geometry: group.options().geometry,
                threshold,
                longest: group.options().geometry.room() - NET_HEADER,
                seat: self.seat.number(),
                start: self.start,
                tally: Tally::default(),
            }),
        }
    }

    /// Counts frames, which came from this offer or from outside.
    #[inline(always)]
    pub(crate) fn count(&self, offer: Option<&Offer>, tally: Tally) {
        self.seat.group().grid().add(offer, self.port, tally);
    }
}

/// The decision about a frame that fits into the next posted buffer.
pub(crate) trait Handover {
    /// Exchanges the buffer of `frame` for the one posted at `posted`. Returns the former; or [`Instead::OWN`]: the frame must be
    /// copied.
    fn exchange(&mut self, frame: &Frame<'_>, posted: *const u8) -> Instead;
}

/// All frames are copied.
pub(crate) struct CopyAll;

impl Handover for CopyAll {
    #[inline(always)]
    fn exchange(&mut self, _: &Frame<'_>, _: *const u8) -> Instead {
        Instead::OWN
    }
}

/// Frames of one burst, on their way to a member's queue. It has all that each frame needs at hand.
pub(crate) struct Exchanging<'j> {
    offer: &'j Offer,
    owners: &'j [AtomicU16],
    geometry: Geometry,
    /// Shortest and longest frame.
    threshold: u32,
    longest: u32,
    /// The receiver: its seat, and where it has the group's memory.
    seat: u16,
    start: usize,
    tally: Tally,
}

impl Exchanging<'_> {
    /// Returns the outcome of the frames so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    #[cold]
    fn copy(&mut self, reason: Copied) -> Instead {
        self.tally.add_copied(reason, 1);
        Instead::OWN
    }
}

impl Handover for Exchanging<'_> {
    #[inline(always)]
    fn exchange(&mut self, frame: &Frame<'_>, posted: *const u8) -> Instead {
        if frame.len() < self.threshold {
            return self.copy(Copied::Short);
        }
        let header = frame.first().as_ptr().wrapping_sub(NET_HEADER as usize);
        let (Some(place), Some(sent)) = (frame.chain_place(), self.geometry.number(self.offer.offset(header))) else {
            return self.copy(Copied::Changed);
        };
        let Some(given) = self.geometry.number(posted.addr().wrapping_sub(self.start) as u64) else {
            return self.copy(Copied::Foreign);
        };
        let [sent_owner, given_owner] = [sent, given].map(|buffer| &self.owners[usize::from(buffer)]);
        // A buffer that was sent already is the receiver's by now.
        let is_right = sent_owner.load(Ordering::Relaxed) == self.offer.seat()
            && given_owner.load(Ordering::Relaxed) == self.seat
            && sent != given
            && frame.len() <= self.longest;
        if !is_right {
            return self.copy(Copied::Foreign);
        }
        // The rings order these stores with accesses of the new owners, which learn of the buffers later.
        sent_owner.store(self.seat, Ordering::Relaxed);
        given_owner.store(self.offer.seat(), Ordering::Relaxed);
        self.offer.give(place, given);
        self.tally.add_exchanged();
        Instead::of(sent)
    }
}
