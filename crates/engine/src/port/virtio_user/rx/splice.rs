//! Reception into the buffers of a guest that gets every frame as it comes: entries move from ring to ring.

use super::VirtioReceive;
use crate::port::zero_copy::GuestBuffers;
use virtqueue::device::Spliced;

impl VirtioReceive {
    /// See [`crate::port::zero_copy::ZeroCopyRx::splice`].
    #[inline(always)]
    pub(super) fn splice_to(&self, guest: &GuestBuffers, most: u16) -> Spliced {
        let Some(lending) = self.lending.as_ref().filter(|lending| lending.is_usual()) else { return Spliced::NOTHING };
        let end = &mut *self.end.borrow_mut();
        // While the device has own buffers of the switch, frames in these have to be copied.
        let has_all_own = self.spare.borrow().len() == usize::from(end.queue.size());
        if self.outer > 0 || !has_all_own || !self.headers.writes() {
            return Spliced::NOTHING;
        }
        let loans = &mut self.loans.borrow_mut();
        lending.splice(guest, loans, |ring, loans, room| ring.splice(end.queue.ring(), loans, most, room))
    }
}
