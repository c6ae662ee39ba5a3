//! Reception into the buffers of a guest that gets every frame as it comes: entries move from ring to ring.

use super::{Lent, Socket, XdpReceive};
use crate::port::af_xdp::splice::{FillReach, Filler};
use crate::port::zero_copy::{GuestBuffers, HeaderTest};
use virtqueue::NET_HEADER;
use virtqueue::device::{ReceiveTerms, Seen, Spliced, Unseen};

impl Socket {
    /// Returns what tells where the kernel fills loans, with frames that begin at offset `start`.
    #[inline(always)]
    pub(super) fn reach(&self, start: u32) -> FillReach<'_> {
        FillReach { view: &self.view, start, zero_copy: self.zero_copy }
    }
}

impl XdpReceive {
    /// See [`crate::port::zero_copy::ZeroCopyRx::splice`].
    #[inline(always)]
    pub(super) fn splice_to(&self, guest: &GuestBuffers, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let usual = self.lending.as_ref().filter(|lending| lending.mapped().growth() == 0);
        let (Some(socket), Some(lending)) = (&self.socket, usual) else { return Spliced::NOTHING };
        let Some(keep) = lending.keeps_usual() else { return Spliced::NOTHING };
        // While the kernel has own chunks, or they are held, frames in these have to be copied. Addresses that wait go first.
        let has_all_own = self.spare.borrow().len() == usize::from(self.own.pool.count());
        if !has_all_own || !self.addresses.borrow().is_empty() {
            return Spliced::NOTHING;
        }
        self.unstick(socket);
        let rings = &mut *socket.rings.borrow_mut();
        let Lent { addresses, loans } = &mut *self.lent.borrow_mut();
        let mut filler = Filler {
            rings,
            addresses,
            most: self.own.pool.count(),
            reach: socket.reach(NET_HEADER),
            leaves_checksums: self.own.unfinished.is_some(),
        };
        let mut done = lending.splice(guest, loans, |ring, loans, room| {
            let terms = ReceiveTerms { most, room, keep };
            match test {
                None => ring.splice_with(&mut filler, loans, terms, Unseen),
                Some(test) => ring.splice_with(&mut filler, loans, terms, Seen::by(test)),
            }
        });
        // The general way offers own chunks.
        done.stopped |= keep > 0 && loans.len() < lending.mapped().reserve();
        if let Some(unfinished) = self.own.unfinished.as_ref().filter(|_| done.finished > 0) {
            unfinished.note();
        }
        if done.frames == 0 && !done.stopped {
            self.refill_late(&mut rings.fill);
        }
        done
    }
}
