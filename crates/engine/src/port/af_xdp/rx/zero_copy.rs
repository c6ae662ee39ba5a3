//! Reception into the buffers of a guest.

use super::{InFlight, Lent, Socket, XdpReceive, push};
use crate::port::zero_copy::{GuestBuffers, Lending, Mix, PassOn, Timing, ZeroCopyRx};
use packet::Burst;
use virtqueue::NET_HEADER;
use virtqueue::device::{FilledLoans, Landing, Loan, Told};
use xsk::{Descriptor, RingBurst, Umem};

/// Frames, or parts of frames, that the kernel has received.
struct Received<'r, 'q> {
    port: &'q XdpReceive,
    guest: &'q GuestBuffers,
    lending: &'q Lending,
    umem: &'r Umem,
    lent: &'r mut InFlight<Lent>,
    parts: RingBurst<'r, Descriptor>,
    any: bool,
    /// Number of parts in own chunks.
    own: u64,
}

impl<'q> FilledLoans<'q> for Received<'_, 'q> {
    #[inline(always)]
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        for part in &mut self.parts {
            self.any = true;
            let at = self.umem.frame_address(part.address);
            if let Some(index) = self.port.pool.index(at) {
                self.own += 1;
                self.port.push_own(index, at, part, burst);
                continue;
            }
            let filled = self.umem.filled_address(part.address);
            if let Some(Lent { loan, start }) = self.lent.take(filled) {
                self.lending.came_back(filled);
                let landing = Landing { at: start, ..Landing::whole(part.len) };
                if let Some(unfinished) = &self.port.unfinished
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
    umem: &'f Umem,
    /// Offset in a loan at which a frame will begin.
    start: u32,
    addresses: &'f mut Vec<u64>,
    lent: &'f mut InFlight<Lent>,
}

impl PassOn for FillWith<'_> {
    #[inline(always)]
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan> {
        let frame = self.socket.view.address(loan.addr(), loan.len()).map(|at| at + u64::from(self.start));
        let address = frame.and_then(|frame| self.umem.fill_address(frame));
        match address.filter(|&at| self.umem.accepts(at, self.socket.zero_copy)) {
            Some(address) => {
                self.addresses.push(address);
                self.lent.push(address, Lent { loan, start: self.start });
                Ok(address)
            }
            None => Err(loan),
        }
    }
}

impl ZeroCopyRx for XdpReceive {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        let (Some(socket), Some(lending)) = (&self.socket, &self.lending) else { return false };
        self.unstick(socket);
        let rings = &mut *socket.rings.borrow_mut();
        let umem = socket.view.umem();
        let mut lent = self.lent.borrow_mut();
        let parts = rings.rx.burst(burst.room() as u32);
        let mut received = Received { port: self, guest, lending, umem, lent: &mut lent, parts, any: false, own: 0 };
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
        spare.append(&mut self.taken.borrow_mut());
        // With the kernel, or held: frames in these will be copied.
        let own_out = spare.len() < usize::from(self.pool.count());
        drop(spare);
        let mut lent = self.lent.borrow_mut();
        let mut addresses = self.addresses.borrow_mut();
        // As in `fill_own`.
        let most = usize::from(self.pool.count()).saturating_sub(self.filled.get() + lent.len());
        let umem = socket.view.umem();
        // If a tag is removed or inserted after the addresses, all that follows can stay in place: the frame begins
        // further to the front, in the room for the virtio header, or further to the back, in the room for the frame.
        let growth = lending.mapped().growth();
        let start = NET_HEADER.saturating_add_signed(growth);
        let more = growth.max(0).unsigned_abs();
        let mut fill = FillWith { socket, umem, start, addresses: &mut addresses, lent: &mut lent };
        let any = lending.relend(guest, most, more, own_out, &mut fill);
        push(&mut addresses, |some| socket.rings.borrow_mut().fill.push(some));
        lending.mapped().on_loan.set(lent.len() as u64);
        drop((lent, addresses));
        self.fill_reserve(lending.mapped().reserve()) || any
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
            lending.recall(guest, self.lent.borrow_mut().drain().map(|lent| lent.loan));
        }
        // Lost frames were counted by `stop`.
        0
    }
}
