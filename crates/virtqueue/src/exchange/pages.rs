//! Pages that change places instead of frames being copied, between functions that do not trust each other.
//!
//! A function takes its packet buffers from an area: memory whose pages somebody can exchange for those of another area
//! ([`Pages`]), without changing where the functions have them. So a frame arrives in a posted buffer whose page came from the
//! sender, at the same offset in it.

use super::counts::Copied;
use super::grid::Grid;
use crate::memory::{Memory, Region};
use packet::{Frames, Offer};
use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;

/// Most pairs of pages in one call.
pub const MAX_PAIRS: usize = 256;

/// Most pieces of a frame: a full burst of such frames takes one call.
pub(crate) const PIECES: u32 = (MAX_PAIRS / packet::MAX_BURST) as u32;

/// Size of a page in bytes.
const PAGE: u64 = 4096;

/// Two pages to exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagePair {
    /// Number of the page that goes to the other area.
    pub here: u32,
    /// Number of the other area's page that comes in its place.
    pub there: u32,
    /// Start of the sent bytes, from the start of the former page.
    pub start: u16,
    /// Number of the sent bytes: the other area's owner may see no other bytes of the page, as a third one may have written them.
    pub len: u16,
}

/// Pairs of a call that were not exchanged, as somebody holds one of their pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped([u64; MAX_PAIRS / 64]);

impl Skipped {
    /// Adds a pair.
    ///
    /// # Panics
    /// If there can be no such pair.
    #[inline]
    pub fn insert(&mut self, pair: usize) {
        self.0[pair / 64] |= 1 << (pair % 64);
    }

    /// Reports whether a pair is in it.
    #[inline]
    pub fn contains(&self, pair: usize) -> bool {
        self.0.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 != 0)
    }
}

/// An area: memory of one function, whose pages can be exchanged.
pub trait Pages: Debug + Send + Sync {
    /// Returns its number, which no other area has.
    fn id(&self) -> u64;

    /// Gives pages to `there`, each in exchange for one of its pages: at most [`MAX_PAIRS`]. Nothing was exchanged if this
    /// returns `None`, as for a call that names a page twice.
    fn exchange(&self, there: &dyn Pages, pairs: &[PagePair]) -> Option<Skipped>;

    /// Returns it to be downcast: an area can only exchange pages with others of its type.
    fn as_any(&self) -> &dyn Any;
}

/// A port's place in an exchange of pages.
#[derive(Clone, Debug)]
pub struct PagePlace {
    /// Counters of the exchange.
    pub grid: Arc<Grid>,
    /// Number of the port.
    pub port: u16,
    /// Length in bytes from which frames are exchanged.
    pub threshold: u32,
}

/// A queue whose function has its packet buffers in an area.
#[derive(Debug)]
pub struct PageMember {
    pages: Arc<dyn Pages>,
    place: PagePlace,
    memory: Arc<Memory>,
    /// Where the region is that is of the area: its guest address, its address here, its length, and its offset in the area.
    guest_addr: u64,
    start: usize,
    len: u64,
    offset: u64,
}

impl PageMember {
    /// Returns the member that has `region` of `memory` from the area `pages`. `None` if it is not in there, or too long.
    pub fn find(pages: Arc<dyn Pages>, region: &Region, memory: &Arc<Memory>, place: PagePlace) -> Option<PageMember> {
        let Region { guest_addr, len, offset, .. } = *region;
        let start = memory.translate(guest_addr, len)?.addr().get();
        u32::try_from(offset.checked_add(len)? / PAGE).ok()?;
        Some(PageMember { pages, place, memory: memory.clone(), guest_addr, start, len, offset })
    }

    /// Returns a record by which the frames of this queue are exchanged.
    pub(crate) fn offer(self: &Arc<PageMember>) -> Offer {
        Offer::of_pages(self.grid().id(), self.place.port, self.clone())
    }

    /// Returns the counters of the exchange.
    pub(crate) fn grid(&self) -> &Grid {
        &self.place.grid
    }

    /// Returns the number of the port.
    pub(crate) fn port(&self) -> u16 {
        self.place.port
    }

    /// Returns the page that these bytes lie in, and where in it. `None` if they are not of the area, or cross pages.
    #[inline]
    fn place_of(&self, start: *const u8, len: u32) -> Option<(u32, u16)> {
        let (from, len) = (start.addr().wrapping_sub(self.start) as u64, u64::from(len));
        let in_area = self.offset.wrapping_add(from);
        let in_page = in_area % PAGE;
        let fits = from < self.len && len <= self.len - from && in_page + len <= PAGE;
        fits.then_some(((in_area / PAGE) as u32, in_page as u16))
    }

    /// Returns the address of bytes of a page, if the function shares them.
    fn address_of(&self, page: u32, start: u16, len: u16) -> Option<NonNull<u8>> {
        let from = (u64::from(page) * PAGE + u64::from(start)).checked_sub(self.offset)?;
        self.memory.translate(self.guest_addr + from, len.into())
    }
}

/// Pairs of pages by which frames of one burst go to a member's queue.
pub(crate) struct Passing<'m> {
    from: &'m PageMember,
    to: &'m PageMember,
    pairs: [PagePair; MAX_PAIRS],
    count: usize,
}

impl<'m> Passing<'m> {
    /// Returns how frames of a burst are passed on to `to`; or the reason why not.
    #[inline]
    pub(crate) fn find(frames: &Frames<'m>, to: &'m PageMember) -> Result<Passing<'m>, Copied> {
        let offer = frames.offer().filter(|offer| offer.group() == to.grid().id()).ok_or(Copied::Outside)?;
        let from = offer.member().and_then(|member| member.downcast_ref::<PageMember>()).ok_or(Copied::Outside)?;
        if !frames.may_exchange() {
            return Err(Copied::Shared);
        }
        // A function with two ports may send to itself.
        if from.pages.id() == to.pages.id() {
            return Err(Copied::Foreign);
        }
        Ok(Passing { from, to, pairs: [PagePair::default(); MAX_PAIRS], count: 0 })
    }

    /// Returns the length from which frames are exchanged.
    #[inline]
    pub(crate) fn threshold(&self) -> u32 {
        self.to.place.threshold
    }

    /// Returns the number of pairs.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Forgets the pairs behind the first `count`.
    #[inline]
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Adds the pages of `len` bytes at `sent`, `lead` bytes in front of these included, and of the buffer `posted`. Returns
    /// false, and adds nothing, unless both lie alike in a page of their areas.
    #[inline]
    pub(crate) fn add(&mut self, sent: *const u8, len: u32, lead: u32, posted: *const u8) -> bool {
        let places = (
            self.from.place_of(sent.wrapping_sub(lead as usize), len + lead),
            self.to.place_of(posted, len + lead),
            self.pairs.get_mut(self.count),
        );
        let (Some((here, at)), Some((there, posted_at)), Some(pair)) = places else { return false };
        if at != posted_at {
            return false;
        }
        *pair = PagePair { here, there, start: at + lead as u16, len: len as u16 };
        self.count += 1;
        true
    }

    /// Exchanges all pairs; as [`Pages::exchange`].
    #[inline]
    pub(crate) fn exchange(&self) -> Option<Skipped> {
        self.from.pages.exchange(&*self.to.pages, &self.pairs[..self.count])
    }

    /// Returns where the bytes of a pair that was not exchanged lie, where they go, and their number.
    #[cold]
    pub(crate) fn copy_of(&self, pair: usize) -> Option<(NonNull<u8>, NonNull<u8>, u16)> {
        let PagePair { here, there, start, len } = *self.pairs[..self.count].get(pair)?;
        Some((self.from.address_of(here, start, len)?, self.to.address_of(there, start, len)?, len))
    }
}
