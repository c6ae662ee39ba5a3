//! The ring of a guest's receive queue, of either format.

use super::budget::Budget;
use super::posted::{Entries, Posted, PostedQueue};
use super::ring::{DeviceRing, Usual};
use super::taken::TakenChain;
use crate::error::Fatal;
use crate::exchange::Instead;
use crate::layout::NET_HEADER;
use packet::copy::prefetch_write;

/// Whether the first cache lines of posted buffers are prefetched for writing when the buffers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// They are: frames will be copied to most of the buffers.
    Yes,
    /// They are not: most of the buffers will be lent or exchanged, or a frame follows at once.
    No,
}

impl Prefetch {
    /// Returns [`Prefetch::Yes`] if `wanted` is true.
    #[inline(always)]
    pub fn when(wanted: bool) -> Prefetch {
        if wanted { Prefetch::Yes } else { Prefetch::No }
    }
}

/// Posts the buffers of a `run` of chains in `vacant` as long as these are usual ones and there is room. Returns their number.
#[inline(always)]
pub(super) fn post_usual<R: DeviceRing>(
    ring: &R,
    vacant: &mut Entries<'_>,
    run: &[R::Entry],
    usual: Usual,
    prefetch: Prefetch,
) -> usize {
    let memory = &*ring.common().areas.memory;
    let mut posted = 0;
    for (entry, room) in run.iter().zip(vacant.run()) {
        let Some((descriptor, id)) = ring.read(entry) else { break };
        let len = descriptor.tail.len();
        if !usual.is(descriptor) {
            break;
        }
        let Some(ptr) = memory.translate(descriptor.addr, len.into()) else { break };
        R::fetch_to_return(entry);
        if prefetch == Prefetch::Yes {
            // The frame's first line. The header, if on another line, hardly ever changes.
            prefetch_write(ptr.as_ptr().wrapping_add(NET_HEADER as usize));
        }
        room.set(Posted { ptr: ptr.as_ptr(), len, id, slots: 1 });
        posted += 1;
    }
    vacant.pass(posted);
    posted
}

/// Operations on a receive queue that differ between the ring formats.
pub(super) trait ReceiveRing {
    /// Reads posted buffers until `wanted` of them are at hand, none are left, or `budget` is spent.
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, prefetch: Prefetch, budget: &Budget) -> Result<(), Fatal>;

    /// Where a call stands in returning chains. It is a local meanwhile: after each write to guest memory, a cell has to be
    /// read again.
    type Used;

    /// Returns where the next call goes on.
    fn used(&self) -> Self::Used;

    /// Stores where a call stands: before [`ReceiveRing::publish`], and before [`ReceiveRing::used`] is called again.
    fn set_used(&self, used: Self::Used);

    /// Returns the chain that ends with `last` to the guest, with `written` bytes in it, at least one; or another buffer `instead`.
    fn put_used(&self, used: &mut Self::Used, last: Posted, written: u32, instead: Instead);

    /// Returns one chain to the guest, with the chain's own buffer, for a caller that has not called [`ReceiveRing::used`]. By itself,
    /// so that it does not make the caller's loop slower.
    #[inline(never)]
    fn put_one(&self, last: Posted, written: u32) {
        let mut used = self.used();
        self.put_used(&mut used, last, written, Instead::OWN);
        self.set_used(used);
    }

    /// Returns a chain to the guest, empty.
    fn put_empty(&self, used: &mut Self::Used, chain: TakenChain);

    /// Publishes all returned chains at once.
    fn publish(&self);
}
