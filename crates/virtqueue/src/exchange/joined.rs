//! A queue of a member, as the device exchanges through it.

use super::counts::{Copied, Tally};
use super::group::Seat;
use crate::layout::NET_HEADER;
use crate::memory::Memory;
use packet::{Frame, Frames, Offer};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        Offer::new(self.seat.group().id(), self.seat.number(), self.port, self.start)
    }

    /// Returns the offer of these frames, if their buffers may be exchanged for ones of this queue; or the reason why not.
    #[inline(always)]
    pub(crate) fn accept<'b>(&self, frames: &Frames<'b>) -> Result<&'b Offer, Copied> {
        match frames.offer().filter(|offer| offer.group() == self.seat.group().id()) {
            None => Err(Copied::Outside),
            Some(_) if !frames.may_exchange() => Err(Copied::Shared),
            Some(offer) => Ok(offer),
        }
    }

    /// Exchanges the buffer of `frame` for the one posted at `posted`. Returns the number of the former, plus one.
    #[inline(always)]
    pub(crate) fn exchange(&self, offer: &Offer, frame: &Frame<'_>, posted: *const u8) -> Result<u16, Copied> {
        let group = &**self.seat.group();
        let options = group.options();
        if frame.len() < options.threshold {
            return Err(Copied::Short);
        }
        let place = frame.chain_place().ok_or(Copied::Changed)?;
        let header = frame.first().as_ptr().wrapping_sub(NET_HEADER as usize);
        let sent = options.geometry.number(offer.offset(header)).ok_or(Copied::Changed)?;
        let given = options.geometry.number(posted.addr().wrapping_sub(self.start) as u64).ok_or(Copied::Foreign)?;
        let [sent_owner, given_owner] = [sent, given].map(|buffer| &group.owners[usize::from(buffer)]);
        let is_right = sent_owner.load(Ordering::Relaxed) == offer.seat()
            && given_owner.load(Ordering::Relaxed) == self.seat.number()
            && sent != given
            && frame.len() + NET_HEADER <= options.geometry.room()
            && !offer.is_given(place);
        if !is_right {
            return Err(Copied::Foreign);
        }
        // The rings order these with what the new owners do: they learn of the buffers later.
        sent_owner.store(self.seat.number(), Ordering::Relaxed);
        given_owner.store(offer.seat(), Ordering::Relaxed);
        offer.give(place, given);
        Ok(sent + 1)
    }

    /// Counts frames, which came from this offer or from outside.
    #[inline(always)]
    pub(crate) fn count(&self, offer: Option<&Offer>, tally: Tally) {
        let group = self.seat.group();
        let from = match offer {
            Some(offer) if offer.group() == group.id() => offer.port(),
            _ => group.options().ports,
        };
        group.counters(from, self.port).add(tally);
    }
}
