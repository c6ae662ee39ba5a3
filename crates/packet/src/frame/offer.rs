//! Buffers offered in exchange for others.

use super::MAX_BURST;
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

/// A receive queue's record of the buffers that it gets back instead of those that its frames came in.
///
/// The frames of such a queue lie in buffers of a group's memory. An output that posts buffers of the same memory may take a
/// frame's buffer for good, and give one of its own for it: the frame changes hands without a copy. If pages are exchanged
/// instead, no buffer is given, and the output has to know the sender's memory ([`Offer::member`]).
pub struct Offer {
    group: u64,
    seat: u16,
    port: u16,
    /// Address of the group's memory, as the queue has it mapped.
    start: usize,
    /// The member that sends, if outputs have to know it.
    member: Option<Arc<dyn Any + Send + Sync>>,
    /// Places of the burst for whose buffers others were given, a bit each.
    places: Cell<u32>,
    /// By place in the burst: the buffer given for the one there.
    given: [Cell<u16>; MAX_BURST],
}

const _: () = assert!(MAX_BURST <= u32::BITS as usize, "a bit for each place");

impl Offer {
    /// Returns the record of a queue of `seat`, at `port` of the group, which has the group's memory mapped at `start`.
    pub fn new(group: u64, seat: u16, port: u16, start: usize) -> Offer {
        let given = [const { Cell::new(0) }; MAX_BURST];
        Offer { group, seat, port, start, member: None, places: Cell::new(0), given }
    }

    /// Returns the record of a queue at `port` of the exchange `group`, whose function is `member`: pages of its memory are
    /// exchanged.
    pub fn of_pages(group: u64, port: u16, member: Arc<dyn Any + Send + Sync>) -> Offer {
        Offer { member: Some(member), ..Offer::new(group, 0, port, 0) }
    }

    /// Returns the member that sends, if its pages are exchanged.
    #[inline]
    pub fn member(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.member.as_deref()
    }

    /// Returns the number of the group.
    #[inline(always)]
    pub fn group(&self) -> u64 {
        self.group
    }

    /// Returns the number by which the function's buffers are marked.
    #[inline(always)]
    pub fn seat(&self) -> u16 {
        self.seat
    }

    /// Returns the number of the port in its group.
    #[inline(always)]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the distance from the start of the group's memory to `at`, which may lie elsewhere.
    #[inline(always)]
    pub fn offset(&self, at: *const u8) -> u64 {
        at.addr().wrapping_sub(self.start) as u64
    }

    /// Gives `buffer` for the one at this place.
    #[inline(always)]
    pub fn give(&self, place: u8, buffer: u16) {
        self.places.set(self.places.get() | 1 << place);
        self.given[usize::from(place)].set(buffer);
    }

    /// Returns the places for whose buffers others were given, a bit each; and forgets them.
    #[inline(always)]
    pub fn take_places(&self) -> u32 {
        self.places.take()
    }

    /// Returns the buffer last given for the one at this place.
    #[inline(always)]
    pub fn given(&self, place: usize) -> u16 {
        self.given[place].get()
    }
}
