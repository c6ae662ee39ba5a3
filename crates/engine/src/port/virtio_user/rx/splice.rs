//! Reception into the buffers of a guest that gets every frame as it comes: entries move from ring to ring.

use super::VirtioReceive;
use crate::port::zero_copy::{GuestBuffers, HeaderTest};
use virtqueue::device::Spliced;
use virtqueue::driver::Queue;

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
        let (loans, terms) = (&mut *self.loans.borrow_mut(), (most, keep));
        let mut done = match end.queue.ring() {
            Queue::Split(ring) => lending.splice(guest, ring, loans, terms, test),
            Queue::Packed(ring) => lending.splice(guest, ring, loans, terms, test),
        };
        // The general way offers own buffers.
        done.stopped |= keep > 0 && self.offered(end) < lending.mapped().reserve();
        done
    }
}
