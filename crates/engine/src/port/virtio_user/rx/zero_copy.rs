//! Reception into the buffers of a guest.

use super::{Held, Returned, VirtioReceive};
use crate::port::virtio_user::{BufferedQueue, ROOM};
use crate::port::zero_copy::{GuestBuffers, HeaderTest, Lending, Mix, PassOn, Timing, ZeroCopyRx};
use packet::Burst;
use virtqueue::device::{FilledLoans, Landing, Loan, Loans, Spliced, Told};

/// Buffers that the device has returned.
struct ReturnedBuffers<'r, 'q> {
    port: &'q VirtioReceive,
    lending: &'q Lending,
    end: &'r mut BufferedQueue<Held>,
    guest: &'q GuestBuffers,
    loans: &'r mut Loans,
    taken: &'r mut Vec<u16>,
    /// Number of loans, and of own buffers.
    lent: u16,
    own: u64,
}

impl<'q> FilledLoans<'q> for ReturnedBuffers<'_, 'q> {
    #[inline(always)]
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        while burst.room() > 0 {
            let (id, returned, len) = VirtioReceive::pop(self.end, self.loans)?;
            match returned {
                Returned::Lent(lent) => {
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
                Returned::Own(index) => {
                    self.own += 1;
                    self.taken.push(index);
                    self.port.push_one(self.end, index, len.min(ROOM), burst);
                }
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
    loans: &'o mut Loans,
    spare: &'o mut Vec<u16>,
    guest: &'o GuestBuffers,
}

impl PassOn for Offer<'_> {
    #[inline(always)]
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan> {
        self.port.offer_lent(self.end, self.loans, self.spare, self.guest, loan).map(u64::from)
    }
}

impl ZeroCopyRx for VirtioReceive {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(lending) = &self.lending else { return false };
        let end = &mut *self.end.borrow_mut();
        let mut taken = self.taken.borrow_mut();
        let loans = &mut *self.loans.borrow_mut();
        let mut returned =
            ReturnedBuffers { port: self, lending, end, guest, loans, taken: &mut taken, lent: 0, own: 0 };
        let in_place = guest.ring().receive_filled(burst, &mut returned);
        let ReturnedBuffers { lent, own, .. } = returned;
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
            heads = usize::from(self.loans.borrow().len());
        }
        // With the device, or held: frames in these will be copied.
        let own_out = usize::from(end.queue.size()).saturating_sub(spare.len() + heads);
        let mut loans = self.loans.borrow_mut();
        let mut offer = Offer { port: self, end, loans: &mut loans, spare: &mut spare, guest };
        let any = lending.relend(guest, most, 0, own_out, &mut offer);
        lending.mapped().on_loan.set(loans.len().into());
        drop((spare, loans));
        let own = self.offer_reserve(end, lending.mapped().reserve());
        any || own
    }

    fn splice(&self, guest: &GuestBuffers, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        self.splice_to(guest, most, test)
    }

    fn timing(&self) -> Option<&Timing> {
        self.lending.as_ref().map(Lending::timing)
    }

    fn adapt(&self, mix: Mix) {
        self.lending.iter().for_each(|lending| lending.adapt(mix));
    }

    fn recall(&self, guest: &GuestBuffers) -> u64 {
        let Some(lending) = &self.lending else { return 0 };
        let end = &mut *self.end.borrow_mut();
        let mut lost = 0;
        let loans = &mut *self.loans.borrow_mut();
        while let Some((_, returned, _)) = Self::pop(end, loans) {
            lost += 1;
            if let Returned::Lent(lent) = returned {
                lending.strand(lent.loan);
            }
        }
        end.queue.entries().fill(Held::Nothing);
        lending.recall(guest, loans.drain());
        lost
    }
}
