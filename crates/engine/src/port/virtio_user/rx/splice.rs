//! Reception into the buffers of a guest that gets every frame as it comes: entries move from ring to ring.

use super::VirtioReceive;
use crate::port::zero_copy::{GuestBuffers, HeaderTest};
use virtqueue::device::{ReceiveTerms, Spliced};

impl VirtioReceive {
    /// See [`crate::port::zero_copy::ZeroCopyRx::splice`].
    #[inline(always)]
    pub(super) fn splice_to(&self, guest: &GuestBuffers, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let Some(lending) = &self.lending else { return Spliced::NOTHING };
        let Some(keep) = lending.keeps_usual() else { return Spliced::NOTHING };
        let end = &mut *self.end.borrow_mut();
        // While the device has own buffers of the switch, frames in these have to be copied.
        let has_all_own = self.spare.borrow().len() == usize::from(end.queue.size());
        if self.outer > 0 || !has_all_own || !self.headers.writes() {
            return Spliced::NOTHING;
        }
        let loans = &mut *self.loans.borrow_mut();
        loans.watch(lending.timed().map(|key| key as u16));
        let terms = ReceiveTerms { most, room: lending.room(), keep };
        let mut done = guest.splice(end.queue.ring(), loans, terms, test);
        let mapped = lending.mapped();
        mapped.in_place.add(done.frames.into());
        mapped.on_loan.set(loans.len().into());
        if loans.watched_is_back() {
            lending.timed_came_back();
        }
        if let Some(id) = loans.last() {
            lending.lent(id.into());
        }
        // The general way offers own buffers.
        done.stopped |= keep > 0 && self.offered(end) < mapped.reserve();
        done
    }
}
