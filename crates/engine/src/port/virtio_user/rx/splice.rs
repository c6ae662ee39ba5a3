//! Reception into the buffers of a guest that gets every frame as it comes: entries move from ring to ring.

use super::VirtioReceive;
use crate::port::zero_copy::{GuestBuffers, HeaderTest};
use virtqueue::device::{ReceiveTerms, Seen, Spliced, Unseen};

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
        let (ring, loans) = (end.queue.ring(), &mut *self.loans.borrow_mut());
        let mut done = lending.splice(guest, loans, |guest, loans, room| {
            let terms = ReceiveTerms { most, room, keep };
            match test {
                None => guest.splice(ring, loans, terms, Unseen),
                Some(test) => guest.splice(ring, loans, terms, Seen::by(test)),
            }
        });
        // The general way offers own buffers.
        done.stopped |= keep > 0 && self.offered(end) < lending.mapped().reserve();
        done
    }
}
