//! A queue as the ring of a driver, whose entries are spliced with those of a guest's queue ([`virtqueue::device::Spliced`]). Buffers
//! have ids, by which they come back.

use super::chunk;
use super::reception::Reception;
use super::shared::Reaches;
use super::transmission::Transmission;
use ::dpdk::{Loan, ToSend};
use virtqueue::NET_HEADER;
use virtqueue::driver::{Buffer, Offer, Run, Take, TakenBack};

/// The device as it fills loans.
pub(super) struct Filler<'s> {
    pub(super) reception: &'s mut Reception,
    pub(super) reach: Reaches<'s>,
    /// Whether frames may come whose checksums are unfinished.
    pub(super) leaves_checksums: bool,
    /// See [`Reception::fill`].
    pub(super) lends_all: Option<u16>,
}

impl<'s> Run for Filler<'s> {
    const WRITES_HEADERS: bool = false;

    type Reach = Reaches<'s>;

    #[inline(always)]
    fn reach(&self) -> Reaches<'s> {
        self.reach
    }

    fn leaves_checksums(&self) -> bool {
        self.leaves_checksums
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        self.reception.room() as u16
    }

    /// Loans are available at once.
    fn publish(&mut self) {}

    #[inline(always)]
    fn take_back(&mut self, most: u16, mut take: impl Take) -> TakenBack {
        let (mut chains, mut stopped) = (0, false);
        self.reception.fill(self.lends_all);
        while chains < most
            && let Some(frame) = self.reception.waiting().first()
        {
            let (id, written) = (frame.id as u16, NET_HEADER + u32::from(frame.len));
            if chunk(frame.id).is_some() || frame.more() || !take.take(id, written) {
                stopped = true;
                break;
            }
            self.reception.next();
            self.reception.ids.push(id);
            chains += 1;
        }
        self.reception.restraint.delivered(chains);
        TakenBack { chains, stopped }
    }

    #[inline(always)]
    fn peek(&mut self, most: u16, mut look: impl FnMut(u16)) {
        self.reception.fill(self.lends_all);
        let lent = self.reception.waiting().iter().filter(|frame| chunk(frame.id).is_none());
        lent.take(most.into()).for_each(|frame| look(frame.id as u16));
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, mut offer: impl Offer) -> u16 {
        let mut added = 0;
        while added < most
            && let Some(&id) = self.reception.ids.last()
            && let Some(Buffer { addr, len, .. }) = offer.offer(id)
        {
            self.reception.ids.pop();
            self.reception.guests.push(Loan::new(addr, len, NET_HEADER as u16, id.into()));
            added += 1;
        }
        self.reception.restraint.posted(added);
        self.reception.lend_guests();
        added
    }
}

/// The device as it sends a guest's frames.
pub(super) struct Sender<'s> {
    pub(super) transmission: &'s mut Transmission,
    pub(super) reach: Reaches<'s>,
}

impl<'s> Run for Sender<'s> {
    // Nothing is filled.
    const WRITES_HEADERS: bool = true;

    type Reach = Reaches<'s>;

    #[inline(always)]
    fn reach(&self) -> Reaches<'s> {
        self.reach
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        if self.transmission.waiting.is_empty() { self.transmission.ids.len() as u16 } else { 0 }
    }

    /// Frames are sent at once.
    fn publish(&mut self) {}

    #[inline(always)]
    fn take_back(&mut self, most: u16, mut take: impl Take) -> TakenBack {
        let (mut chains, mut stopped) = (0, false);
        while chains < most
            && let Some(id) = self.transmission.first_done()
        {
            if chunk(id).is_none() {
                if !take.take(id as u16, 0) {
                    stopped = true;
                    break;
                }
                chains += 1;
            }
            self.transmission.take_back(id);
        }
        TakenBack { chains, stopped }
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, mut offer: impl Offer) -> u16 {
        let mut added = 0;
        while added < most
            && let Some(&id) = self.transmission.ids.last()
            && let Some(Buffer { addr, len, .. }) = offer.offer(id)
        {
            self.transmission.ids.pop();
            self.transmission.waiting.push(ToSend::new(addr, (len - NET_HEADER) as u16, id.into()));
            added += 1;
        }
        self.transmission.flush();
        added
    }
}
