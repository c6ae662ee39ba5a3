//! The receive half of a DPDK queue.

use super::reception::Reception;
use super::shared::{Reaches, SharedMemory};
use super::splice::Filler;
use super::{Home, chunk};
use crate::port::own_frames::{OwnFrames, Part};
use crate::port::zero_copy::{GuestBuffers, HeaderTest, Lending, Mix, PassOn, Timing, ZeroCopyRx};
use crate::port::{HoldBursts, LifeCycle, RxQueue, Wait};
use ::dpdk::{Frame, Loan as DeviceLoan};
use packet::{Burst, MappedMemory};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use virtqueue::NET_HEADER;
use virtqueue::device::{FilledLoans, Landing, Loan, Loans, ReceiveTerms, Seen, Spliced, Told, Unseen};
use virtqueue::driver::Reach;

/// Interval at which a sleeping worker looks for frames that the device does not announce.
const LOOK: Duration = Duration::from_micros(100);

/// Receive half: frames from a device.
pub struct DpdkReceive {
    /// `None` once stopped.
    reception: RefCell<Option<Box<Reception>>>,
    home: Home<Reception>,
    /// Readable when the device announces frames, if it does.
    wake: Option<OwnedFd>,
    own: OwnFrames,
    /// Number of own chunks that a burst may hold.
    held_at_most: u16,
    lending: Option<Lending>,
    /// Loans that the device has.
    loans: RefCell<Loans>,
    /// Memories of guests that the device reaches.
    reached: Arc<[Arc<SharedMemory>]>,
    /// Bytes of a buffer that the device may write to, from its beginning.
    room: u32,
    /// Whether the next record goes on with a frame that is dropped.
    skips: Cell<bool>,
}

/// What a receive half is made of, besides the queue.
pub(super) struct Parts {
    pub(super) own: OwnFrames,
    pub(super) held_at_most: u16,
    pub(super) lending: Option<Lending>,
    pub(super) reached: Arc<[Arc<SharedMemory>]>,
    pub(super) room: u32,
    /// Maximum number of loans.
    pub(super) most: u16,
}

impl DpdkReceive {
    /// Returns a half that lends its chunks and receives frames, of the queue in its `home`. With `lending`, it prefers a guest's
    /// buffers if they are available.
    pub(super) fn new(home: Home<Reception>, reception: Box<Reception>, parts: Parts) -> std::io::Result<DpdkReceive> {
        let Parts { own, held_at_most, lending, reached, room, most } = parts;
        let wake = reception.queue.event().map(|event| event.try_clone_to_owned()).transpose()?;
        let (loans, skips) = (RefCell::new(Loans::new(most)), Cell::new(false));
        let reception = RefCell::new(Some(reception));
        let half = DpdkReceive { reception, home, wake, own, held_at_most, lending, loans, reached, room, skips };
        half.recycle();
        Ok(half)
    }

    /// Returns where the device reaches buffers of guests that it fills.
    #[inline(always)]
    fn reach(&self) -> Reaches<'_> {
        Reaches { memories: &self.reached, skip: 0, room: self.room, longest: u32::MAX }
    }

    /// Takes the record of a frame. Adds one in an own chunk to `burst`, and returns a loan that came back.
    #[inline(always)]
    fn take<'q>(&'q self, ids: &mut Vec<u16>, frame: Frame, burst: &mut Burst<'_, 'q>) -> Option<(u16, Loan)> {
        let own = chunk(frame.id);
        let is_skipped = self.skips.get() || own.is_none() && (frame.more() || self.own.has_parts());
        if is_skipped {
            self.skip(frame);
        }
        if let Some(chunk) = own {
            if is_skipped {
                self.own.taken.borrow_mut().push(chunk);
            } else {
                let (at, len, more) = (frame.addr, frame.len.into(), frame.more());
                self.own.push(Part { chunk, at, len, more }, burst);
            }
            return None;
        }
        let id = frame.id as u16;
        ids.push(id);
        Some((id, self.loans.borrow_mut().take(id)?))
    }

    /// Drops a frame of several buffers, of which one is a guest's: it is longer than frames to guests are.
    #[cold]
    fn skip(&self, frame: Frame) {
        self.own.drop_parts();
        self.skips.set(frame.more());
        if !frame.more() {
            self.own.count_too_long();
        }
    }

    /// See [`ZeroCopyRx::splice`].
    #[inline(always)]
    fn splice_to(&self, guest: &GuestBuffers, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let reception = &mut *self.reception.borrow_mut();
        let usual = self.lending.as_ref().filter(|lending| lending.mapped().growth() == 0);
        let (Some(reception), Some(lending)) = (reception, usual) else { return Spliced::NOTHING };
        let Some(keep) = lending.keeps_usual() else { return Spliced::NOTHING };
        // While the device has own chunks, or they are held, frames in these have to be copied.
        let is_usual = !self.skips.get() && !self.own.has_parts() && reception.guests.is_empty();
        if !is_usual || reception.own_out(self.own.pool.count()) > 0 {
            return Spliced::NOTHING;
        }
        let (leaves_checksums, lends_all) = (self.own.unfinished.is_some(), lending.room_of_all(guest));
        let mut filler = Filler { reception, reach: self.reach(), leaves_checksums, lends_all };
        let done = lending.splice(guest, &mut self.loans.borrow_mut(), |ring, loans, room| {
            let terms = ReceiveTerms { most, room, keep };
            match test {
                None => ring.splice_with(&mut filler, loans, terms, Unseen),
                Some(test) => ring.splice_with(&mut filler, loans, terms, Seen::by(test)),
            }
        });
        if let Some(unfinished) = self.own.unfinished.as_ref().filter(|_| done.finished > 0) {
            unfinished.note();
        }
        done
    }
}

/// Frames, or pieces of frames, that the device has received.
struct Received<'r, 'q> {
    port: &'q DpdkReceive,
    reception: &'r mut Reception,
    guest: &'q GuestBuffers,
    lending: &'q Lending,
    any: bool,
    /// Number of frames and pieces in own chunks.
    own: u64,
}

impl<'q> FilledLoans<'q> for Received<'_, 'q> {
    #[inline(always)]
    fn next(&mut self, burst: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        while burst.room() > 0
            && let Some(frame) = self.reception.next()
        {
            self.any = true;
            let Some((id, loan)) = self.port.take(&mut self.reception.ids, frame, burst) else {
                self.own += 1;
                continue;
            };
            self.lending.came_back(id.into());
            if frame.len == 0 || frame.more() || self.port.skips.get() {
                self.lending.strand(loan);
                continue;
            }
            let start = frame.addr.wrapping_sub(loan.addr());
            let landing = Landing { at: start as u32, ..Landing::whole(frame.len.into()) };
            if let Some(unfinished) = &self.port.own.unfinished
                && self.guest.ring().finish_checksum(&loan, &landing, Told::Nothing)
            {
                unfinished.note();
            }
            self.reception.restraint.delivered(1);
            return Some((loan, landing));
        }
        None
    }

    fn refused(&mut self, loan: Loan) {
        self.lending.strand(loan);
    }
}

/// Offers loans to the device.
struct LendTo<'l> {
    reception: &'l mut Reception,
    loans: &'l mut Loans,
    reach: Reaches<'l>,
    /// Offset in a loan at which a frame will begin.
    start: u32,
}

impl PassOn for LendTo<'_> {
    #[inline(always)]
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan> {
        let Some(addr) = self.reach.address(loan.addr(), loan.len()) else { return Err(loan) };
        if self.reception.ids.is_empty() || !self.loans.takes(&loan) {
            return Err(loan);
        }
        let id = self.reception.ids.pop().expect("there is one");
        self.reception.restraint.posted(1);
        self.reception.guests.push(DeviceLoan::new(addr, loan.len(), self.start as u16, id.into()));
        self.loans.put(id, loan, self.start != NET_HEADER);
        Ok(id.into())
    }
}

impl RxQueue for DpdkReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(reception) = &mut *self.reception.borrow_mut() else { return false };
        let mut any = false;
        reception.fill(None);
        while burst.room() > 0
            && let Some(frame) = reception.next()
        {
            any = true;
            if let (Some((_, loan)), Some(lending)) = (self.take(&mut reception.ids, frame, burst), &self.lending) {
                lending.strand(loan);
            }
        }
        any
    }

    fn recycle(&self) {
        let Some(reception) = &mut *self.reception.borrow_mut() else { return };
        reception.spare.append(&mut self.own.taken.borrow_mut());
        reception.lend_own(&self.own.pool);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(AsFd::as_fd)
    }

    fn arm(&self) -> Wait {
        let Some(reception) = &mut *self.reception.borrow_mut() else { return Wait::Event };
        reception.lend_guests();
        reception.lend_own(&self.own.pool);
        let is_announced = self.wake.is_some() && reception.queue.arm();
        // One may have arrived before that.
        reception.fill(None);
        match (reception.waiting().is_empty(), is_announced) {
            (false, _) => Wait::Ready,
            (true, true) => Wait::Event,
            (true, false) => Wait::Time(LOOK),
        }
    }

    fn disarm(&self) {
        if let Some(reception) = self.reception.borrow().as_ref().filter(|_| self.wake.is_some()) {
            reception.queue.disarm();
        }
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyRx> {
        self.lending.as_ref().filter(|lending| lending.mapped().is_reachable()).map(|_| self as &dyn ZeroCopyRx)
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

impl HoldBursts for DpdkReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        let guest = self.lending.iter().filter_map(|lending| lending.mapped().memory());
        guest.map(|memory| memory as _).chain([self.own.pool.arena.clone() as _]).collect()
    }

    fn buffers(&self) -> usize {
        self.held_at_most.into()
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.append(&mut self.own.taken.borrow_mut());
    }

    fn give_back(&self, held: &[u16]) {
        debug_assert!(held.iter().all(|&index| index < self.own.pool.count()));
        if let Some(reception) = &mut *self.reception.borrow_mut() {
            reception.spare.extend_from_slice(held);
        }
    }
}

impl LifeCycle for DpdkReceive {
    fn stop(&mut self) -> u64 {
        let Some(mut reception) = self.reception.get_mut().take() else { return 0 };
        self.own.drop_parts();
        reception.spare.append(&mut self.own.taken.borrow_mut());
        let lost = reception.forget();
        *self.home.lock().unwrap() = Some(reception);
        lost
    }
}

impl ZeroCopyRx for DpdkReceive {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        let reception = &mut *self.reception.borrow_mut();
        let (Some(reception), Some(lending)) = (reception, &self.lending) else { return false };
        reception.fill(lending.keeps_usual().and_then(|_| lending.room_of_all(guest)));
        let mut received = Received { port: self, reception, guest, lending, any: false, own: 0 };
        let in_place = guest.ring().receive_filled(burst, &mut received);
        let Received { any, own, .. } = received;
        lending.mapped().in_place.add(in_place as u64);
        lending.mapped().copied.add(own);
        any
    }

    fn relend(&self, guest: &GuestBuffers) -> bool {
        let reception = &mut *self.reception.borrow_mut();
        let (Some(reception), Some(lending)) = (reception, &self.lending) else { return false };
        reception.spare.append(&mut self.own.taken.borrow_mut());
        reception.lend_own(&self.own.pool);
        let (most, own_out) = (reception.room(), reception.own_out(self.own.pool.count()));
        // A tag that is inserted needs room before what follows it. One that is removed does not move the frame to the front: drivers may
        // write a header of their own before it, for which there is the place of the guest's.
        let more = lending.mapped().growth().max(0).unsigned_abs();
        let loans = &mut *self.loans.borrow_mut();
        let mut to = LendTo { reception, loans, reach: self.reach(), start: NET_HEADER + more };
        let any = lending.relend(guest, most, more, own_out, &mut to);
        reception.lend_guests();
        while let Some(id) = reception.take_refused() {
            // Frames are copied to it.
            loans.take(id).into_iter().for_each(|loan| guest.ring().give_back(loan));
            reception.lend_guests();
        }
        lending.mapped().on_loan.set(loans.len().into());
        any
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
        debug_assert!(self.reception.borrow().is_none(), "the device may fill them still");
        if let Some(lending) = &self.lending {
            lending.recall(guest, self.loans.borrow_mut().drain());
        }
        // Lost frames were counted by `stop`.
        0
    }
}
