//! The receive side of a queue, as it moves between the control side and the half of a worker.

use super::restraint::Restraint;
use super::{OWN, chunk};
use crate::port::pool::Pool;
use ::dpdk::{Frame, Kind, Loan, Receive};

/// Headroom of the switch's own chunks, which drivers leave before each frame.
pub(super) const HEADROOM: u16 = 128;

/// Records that are received at once: a frame may have as many pieces.
const RECORDS: usize = 64;

/// The receive side of a queue, and its buffers that nobody has.
pub(super) struct Reception {
    pub(super) queue: Receive,
    /// Own chunks that neither the queue nor a burst has, and those that it gets next.
    pub(super) spare: Vec<u16>,
    own: Vec<Loan>,
    /// Ids that no loan of a guest has.
    pub(super) ids: Vec<u16>,
    /// Number of all ids.
    pub(super) most: u16,
    /// Loans of a guest that the queue gets next: it takes none while the device is changed.
    pub(super) guests: Vec<Loan>,
    /// Records that were received; those from `at` to `end` are not processed yet.
    frames: [Frame; RECORDS],
    at: usize,
    end: usize,
    pub(super) restraint: Restraint,
}

impl Reception {
    /// Returns the side of a queue that has no buffers, with `chunks` chunks.
    pub(super) fn new(queue: Receive, chunks: u16) -> Reception {
        let most = queue.room(Kind::Guest).min(virtqueue::MAX_QUEUE_SIZE.into()) as u16;
        Reception {
            spare: (0..chunks).rev().collect(),
            own: Vec::with_capacity(chunks.into()),
            ids: (0..most).rev().collect(),
            guests: Vec::with_capacity(most.into()),
            most,
            frames: [Frame::default(); RECORDS],
            at: 0,
            end: 0,
            restraint: Restraint::default(),
            queue,
        }
    }

    /// Receives records, if all that were received are processed; with restraint if one guest, whose ring has room for `lends_all`, gets
    /// all frames.
    #[inline(always)]
    pub(super) fn fill(&mut self, lends_all: Option<u16>) {
        if self.at == self.end {
            let most = lends_all.map_or(RECORDS, |size| self.restraint.most(self.queue.out(), size));
            self.at = 0;
            self.end = if most > 0 { self.queue.burst(&mut self.frames, most) } else { 0 };
        }
    }

    /// Returns the records that are not processed.
    #[inline(always)]
    pub(super) fn waiting(&self) -> &[Frame] {
        &self.frames[self.at..self.end]
    }

    /// Takes the next record that is not processed.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Frame> {
        let frame = *self.waiting().first()?;
        self.at += 1;
        Some(frame)
    }

    /// Lends the queue all own chunks that nobody has: the device must never lack a buffer.
    #[inline(always)]
    pub(super) fn lend_own(&mut self, pool: &Pool) {
        let loan = |chunk: u16| Loan::new(pool.address(chunk), pool.size(), HEADROOM, OWN | u32::from(chunk));
        self.own.extend(self.spare.drain(..).map(loan));
        if !self.own.is_empty() {
            let lent = self.queue.lend(Kind::Own, &self.own);
            self.own.drain(..lent);
        }
    }

    /// Lends the queue the guest's buffers that wait.
    #[inline(always)]
    pub(super) fn lend_guests(&mut self) {
        if !self.guests.is_empty() {
            let lent = self.queue.lend(Kind::Guest, &self.guests);
            self.guests.drain(..lent);
        }
    }

    /// Returns how many more of a guest's buffers can be lent.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.ids.len().min(self.queue.room(Kind::Guest).saturating_sub(self.guests.len()))
    }

    /// Takes the loan out that the queue gets next, if it will never take it. Returns its id.
    pub(super) fn take_refused(&mut self) -> Option<u16> {
        let first = *self.guests.first()?;
        let is_refused = self.queue.room(Kind::Guest) > 0 && self.queue.refuses(Kind::Guest, &first);
        is_refused.then(|| {
            let id = self.guests.remove(0).id() as u16;
            self.ids.push(id);
            id
        })
    }

    /// Returns how many of its `chunks` own chunks frames may come in that have to be copied: those at the device, but for those that it
    /// keeps idle, those in a burst, and those that are held.
    #[inline(always)]
    pub(super) fn own_out(&self, chunks: u16) -> usize {
        let out = self.queue.out();
        let waiting = self.own.len() + self.spare.len() + (out.own - out.own_at_device) as usize;
        usize::from(chunks).saturating_sub(waiting + self.queue.idle())
    }

    /// Forgets records that were not processed and loans that the queue has not got. Returns the number of frames that are lost.
    pub(super) fn forget(&mut self) -> u64 {
        self.restraint = Restraint::default();
        let mut lost = 0;
        while let Some(frame) = self.next() {
            lost += u64::from(!frame.more() && frame.len > 0);
            match chunk(frame.id) {
                Some(chunk) => self.spare.push(chunk),
                None => self.ids.push(frame.id as u16),
            }
        }
        self.ids.extend(self.guests.drain(..).map(|loan| loan.id() as u16));
        lost
    }

    /// Takes back a guest's buffers that the device does not have. Returns the number of those that it has.
    pub(super) fn take_back(&mut self) -> u32 {
        let mut ids = Vec::new();
        self.queue.reclaim(Kind::Guest, &mut ids);
        self.ids.extend(ids.into_iter().map(|id| id as u16));
        self.queue.out().guest
    }
}
