//! Reception into the buffers of a guest.

use super::{Lent, Socket, XdpReceive, push};
use crate::port::af_xdp::UmemView;
use crate::port::zero_copy::{GuestBuffers, HeaderTest, Lending, Mix, PassOn, Timing, ZeroCopyRx};
use packet::Burst;
use virtqueue::NET_HEADER;
use virtqueue::device::{FilledLoans, Landing, Loan, Spliced, Told};
use virtqueue::driver::Reach;
use xsk::{Descriptor, RingBurst};

/// Frames, or parts of frames, that the kernel has received.
struct Received<'r, 'q> {
    port: &'q XdpReceive,
    guest: &'q GuestBuffers,
    lending: &'q Lending,
    view: &'r UmemView,
    lent: &'r mut Lent,
    parts: RingBurst<'r, Descriptor>,
    any: bool,
    /// Number of parts in own chunks.
    own: u64,
}

impl<'q> FilledLoans<'q> for Received<'_, 'q> {
    #[inline(always)]
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        let umem = self.view.umem();
        for part in &mut self.parts {
            self.any = true;
            let at = umem.frame_address(part.address);
            if let Some(index) = self.port.own.pool.index(at) {
                self.own += 1;
                self.port.push_own(index, at, part, burst);
                continue;
            }
            if let Some((id, loan)) = self.lent.take(umem.filled_address(part.address)) {
                self.lending.came_back(id.into());
                let start = self.view.address(loan.addr(), loan.len()).and_then(|loan| at.checked_sub(loan));
                let start = start.expect("the frame begins in the loan");
                let landing = Landing { at: start as u32, ..Landing::whole(part.len) };
                if let Some(unfinished) = &self.port.own.unfinished
                    && self.guest.ring().finish_checksum(&loan, &landing, Told::Nothing)
                {
                    unfinished.note();
                }
                return Some((loan, landing));
            }
        }
        None
    }

    fn refused(&mut self, loan: Loan) {
        self.lending.strand(loan);
    }
}

/// Offers loans to the kernel.
struct FillWith<'f> {
    socket: &'f Socket,
    /// Offset in a loan at which a frame will begin.
    start: u32,
    addresses: &'f mut Vec<u64>,
    lent: &'f mut Lent,
}

impl PassOn for FillWith<'_> {
    #[inline(always)]
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan> {
        let Lent { addresses, loans } = &mut *self.lent;
        let (reach, is_usual) = (self.socket.reach(self.start), self.start == NET_HEADER);
        let Some(address) = reach.address(loan.addr(), loan.len()) else { return Err(loan) };
        let Some(id) = addresses.free_id().filter(|_| loans.takes(&loan)) else { return Err(loan) };
        self.addresses.push(address);
        addresses.push(address);
        loans.put(id, loan, !is_usual);
        Ok(id.into())
    }
}

impl ZeroCopyRx for XdpReceive {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        let (Some(socket), Some(lending)) = (&self.socket, &self.lending) else { return false };
        self.unstick(socket);
        let rings = &mut *socket.rings.borrow_mut();
        let view = &socket.view;
        let mut lent = self.lent.borrow_mut();
        let parts = rings.rx.burst(burst.room() as u32);
        let mut received = Received { port: self, guest, lending, view, lent: &mut lent, parts, any: false, own: 0 };
        let in_place = guest.ring().receive_filled(burst, &mut received);
        let Received { any, own, .. } = received;
        if any {
            lending.mapped().in_place.add(in_place as u64);
            lending.mapped().copied.add(own);
        } else {
            self.refill_late(&mut rings.fill);
        }
        any
    }

    fn relend(&self, guest: &GuestBuffers) -> bool {
        let (Some(socket), Some(lending)) = (&self.socket, &self.lending) else { return false };
        let mut spare = self.spare.borrow_mut();
        spare.append(&mut self.own.taken.borrow_mut());
        // With the kernel, or held: frames in these will be copied.
        let own_out = usize::from(self.own.pool.count()) - spare.len();
        drop(spare);
        let mut lent = self.lent.borrow_mut();
        let mut addresses = self.addresses.borrow_mut();
        // As in `fill_own`.
        let most = usize::from(self.own.pool.count()).saturating_sub(self.filled.get() + lent.len());
        // If a tag is removed or inserted after the addresses, all that follows can stay in place: the frame begins
        // further to the front, in the room for the virtio header, or further to the back, in the room for the frame.
        let growth = lending.mapped().growth();
        let start = NET_HEADER.saturating_add_signed(growth);
        let more = growth.max(0).unsigned_abs();
        let mut fill = FillWith { socket, start, addresses: &mut addresses, lent: &mut lent };
        let any = lending.relend(guest, most, more, own_out, &mut fill);
        push(&mut addresses, |some| socket.rings.borrow_mut().fill.push(some));
        lending.mapped().on_loan.set(lent.len() as u64);
        drop((lent, addresses));
        self.fill_reserve(lending.mapped().reserve()) || any
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
        debug_assert!(self.socket.is_none(), "the kernel may fill them still");
        if let Some(lending) = &self.lending {
            let Lent { addresses, loans } = &mut *self.lent.borrow_mut();
            addresses.clear();
            lending.recall(guest, loans.drain());
        }
        // Lost frames were counted by `stop`.
        0
    }
}
