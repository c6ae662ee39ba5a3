//! Reception into the buffers of a guest.

use super::{Held, VirtioReceive};
use crate::port::virtio_user::{BufferedQueue, ROOM};
use crate::port::zero_copy::{GuestBuffers, Lending, Mix, PassOn, ZeroCopyRx};
use packet::Burst;
use virtqueue::device::{FilledLoans, Landing, Loan, Told};

/// Buffers that the device has returned.
struct ReturnedBuffers<'r, 'q> {
    port: &'q VirtioReceive,
    lending: &'q Lending,
    end: &'r mut BufferedQueue<Held>,
    guest: &'q GuestBuffers,
    taken: &'r mut Vec<u16>,
    /// Number of loans, and of own buffers.
    lent: u16,
    own: u64,
}

impl<'q> FilledLoans<'q> for ReturnedBuffers<'_, 'q> {
    #[inline(always)]
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        while burst.room() > 0 {
            let (id, held, len) = VirtioReceive::pop(self.end)?;
            match held {
                Held::Lent(lent) => {
                    self.lent += 1;
                    self.taken.extend(lent.head);
                    self.lending.came_back(id.into());
                    let landing = self.port.landing(self.end, self.guest, &lent, len);
                    if !landing.has_header && lent.head.is_none() {
                        // The queue will write another header, which leaves nothing to the guest.
                        self.guest.ring().finish_checksum(&lent.loan, &landing, Told::ByHeader);
                    }
                    return Some((lent.loan, landing));
                }
                Held::Own(index) => {
                    self.own += 1;
                    self.taken.push(index);
                    self.port.push_one(self.end, index, len.min(ROOM), burst);
                }
                Held::Nothing => {}
            }
        }
        None
    }

    fn refused(&mut self, loan: Loan) {
        self.lending.strand(loan);
    }
}

/// Offers loans to the device.
struct Offer<'o> {
    port: &'o VirtioReceive,
    end: &'o mut BufferedQueue<Held>,
    spare: &'o mut Vec<u16>,
    guest: &'o GuestBuffers,
}

impl PassOn for Offer<'_> {
    #[inline(always)]
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan> {
        self.port.offer_lent(self.end, self.spare, self.guest, loan).map(u64::from)
    }
}

impl ZeroCopyRx for VirtioReceive {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(lending) = &self.lending else { return false };
        let end = &mut *self.end.borrow_mut();
        let mut taken = self.taken.borrow_mut();
        let mut returned = ReturnedBuffers { port: self, lending, end, guest, taken: &mut taken, lent: 0, own: 0 };
        let in_place = guest.ring().receive_filled(burst, &mut returned);
        let ReturnedBuffers { lent, own, .. } = returned;
        self.lent.set(self.lent.get() - lent);
        lending.mapped().in_place.add(in_place as u64);
        lending.mapped().copied.add(own);
        lent > 0 || own > 0
    }

    fn relend(&self, guest: &GuestBuffers) -> bool {
        let Some(lending) = &self.lending else { return false };
        let end = &mut *self.end.borrow_mut();
        let mut spare = self.spare.borrow_mut();
        spare.append(&mut self.taken.borrow_mut());
        let (mut most, mut heads) = (usize::from(end.queue.free()), 0);
        if self.outer > 0 {
            // Each takes another descriptor and an own buffer, of which some may be held.
            most = (most / 2).min(spare.len());
            heads = usize::from(self.lent.get());
        }
        // With the device, or held: frames in these will be copied.
        let own_out = spare.len() + heads < usize::from(end.queue.size());
        let mut offer = Offer { port: self, end, spare: &mut spare, guest };
        let any = lending.relend(guest, most, 0, own_out, &mut offer);
        drop(spare);
        lending.mapped().on_loan.set(self.lent.get().into());
        let own = self.offer_reserve(end, lending.mapped().reserve());
        any || own
    }

    fn adapt(&self, mix: Mix) {
        self.lending.iter().for_each(|lending| lending.adapt(mix));
    }

    fn recall(&self, guest: &GuestBuffers) -> u64 {
        let Some(lending) = &self.lending else { return 0 };
        let end = &mut *self.end.borrow_mut();
        let mut lost = 0;
        while let Some((_, held, _)) = Self::pop(end) {
            lost += 1;
            if let Held::Lent(lent) = held {
                lending.strand(lent.loan);
            }
        }
        let lent = end.queue.entries().iter_mut().filter_map(|held| match std::mem::take(held) {
            Held::Lent(lent) => Some(lent.loan),
            _ => None,
        });
        lending.recall(guest, lent);
        self.lent.set(0);
        lost
    }
}
