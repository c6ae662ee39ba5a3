//! The loans of a mapped queue: buffers that the guest posted and the filler of the queue has, or will get.

use super::direction::Direction;
use super::guest::GuestBuffers;
use super::mapped::{KEEP, KEEP_ALL, Mapped, REFUSED};
use super::share::{Mix, Share};
use super::timing::Timing;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;
use virtqueue::device::{Borrower, Enqueue, Loan, Loans, Spliced, Terms};

/// Loans that the receive half of a mapped queue has not passed on.
pub(in crate::port) struct Lending {
    mapped: Arc<Mapped>,
    /// Shortest buffer that is lent.
    room: u32,
    /// Loans that came back and will be lent again.
    waiting: RefCell<Vec<Loan>>,
    /// The one loan that is timed: its key, and when it was lent.
    timed: Cell<Option<(u64, Instant)>>,
    share: Share,
    timing: Timing,
    /// Whether frames were copied until a moment ago: more of the queue's own buffers are out than usual.
    was_copying: Cell<bool>,
    /// Frames in loans that were taken apart, and are not counted yet.
    taken_apart: Cell<u32>,
}

/// Passes loans on to the filler of a queue.
pub(in crate::port) trait PassOn {
    /// Offers a loan to the filler. Returns a key by which it is known when it comes back, or the loan if it cannot be
    /// filled.
    fn pass_on(&mut self, loan: Loan) -> Result<u64, Loan>;
}

/// Loans passed on in one round.
struct PassedOn<'p, P> {
    to: &'p mut P,
    /// Key of the last one.
    last: Option<u64>,
    /// Whether one was refused.
    refused: bool,
}

impl<P: PassOn> Borrower for PassedOn<'_, P> {
    #[inline(always)]
    fn put(&mut self, loan: Loan) -> Result<(), Loan> {
        match self.to.pass_on(loan) {
            Ok(key) => {
                self.last = Some(key);
                Ok(())
            }
            Err(loan) => {
                self.refused = true;
                Err(loan)
            }
        }
    }
}

impl Lending {
    /// Returns an empty set of loans, for buffers of at least `room` bytes.
    pub(in crate::port) fn new(mapped: Arc<Mapped>, room: u32) -> Lending {
        // A guest has no more buffers, wherever they come from: the filler, or where they were set aside. Most of this is never
        // touched.
        let waiting = RefCell::new(Vec::with_capacity(virtqueue::MAX_QUEUE_SIZE.into()));
        let timing = Timing::new(mapped.clone(), Direction::ToGuest);
        let (share, timed, was_copying, taken_apart) =
            (Share::default(), Cell::new(None), Cell::new(false), Cell::new(0));
        Lending { mapped, room, waiting, timed, share, timing, was_copying, taken_apart }
    }

    /// Returns the times of its bursts.
    #[inline(always)]
    pub(in crate::port) fn timing(&self) -> &Timing {
        &self.timing
    }

    #[inline(always)]
    pub(in crate::port) fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Returns how many buffers stay with the guest if the others are lent as they come: no frame is taken apart, none of the buffers
    /// waits, and none was unfit.
    #[inline(always)]
    pub(in crate::port) fn keeps_usual(&self) -> Option<u32> {
        let keep = if self.mapped.is_exclusive() { 0 } else { self.mapped.keep() };
        let is_usual =
            !self.mapped.copies() && keep <= KEEP && self.waiting.borrow().is_empty() && self.mapped.unfit.get() == 0;
        is_usual.then_some(keep)
    }

    /// Returns for how many buffers the guest's ring has room, if it gets all frames.
    #[inline(always)]
    pub(in crate::port) fn room_of_all(&self, guest: &GuestBuffers) -> Option<u16> {
        self.mapped.is_exclusive().then(|| guest.ring().size())
    }

    /// Splices by `splice`, which gets the guest's ring, these loans, and the minimum length of a buffer. The ids of loans are their keys.
    #[inline(always)]
    pub(in crate::port) fn splice(
        &self,
        guest: &GuestBuffers,
        loans: &mut Loans,
        splice: impl FnOnce(&Enqueue, &mut Loans, u32) -> Spliced,
    ) -> Spliced {
        loans.watch(self.timed().map(|key| key as u16));
        let done = guest.splice(|ring| splice(ring, loans, self.room));
        self.mapped.in_place.add(done.frames.into());
        self.mapped.on_loan.set(loans.len().into());
        if loans.watched_is_back() {
            self.timed_came_back();
        }
        if let Some(id) = loans.last() {
            self.lent(id.into());
        }
        done
    }

    /// Returns the key of the loan that is timed.
    #[inline(always)]
    fn timed(&self) -> Option<u64> {
        self.timed.get().map(|(key, _)| key)
    }

    /// Notes that buffers were lent, the last one with this key. Times it if none is timed.
    #[inline(always)]
    fn lent(&self, key: u64) {
        self.mapped.copied_before.set(self.mapped.copied.get());
        if self.timed.get().is_none() {
            self.timed.set(Some((key, Instant::now())));
        }
    }

    /// Notes that the loan with this key came back.
    #[inline(always)]
    pub(in crate::port) fn came_back(&self, key: u64) {
        if self.timed() == Some(key) {
            self.timed_came_back();
        }
    }

    /// Notes that the timed loan came back.
    fn timed_came_back(&self) {
        if let Some((_, since)) = self.timed.take() {
            let longest = &self.mapped.longest;
            longest.set(longest.get().max(since.elapsed().as_micros() as u64));
        }
    }

    /// See [`super::ZeroCopyRx::adapt`].
    pub(in crate::port) fn adapt(&self, mix: Mix) {
        self.taken_apart.set(self.taken_apart.get() + mix.lent);
        self.mapped.set_keep(self.share.adapt(mix));
    }

    /// Keeps a loan that came back while there is no guest, until there is one.
    pub(in crate::port) fn strand(&self, loan: Loan) {
        self.waiting.borrow_mut().push(loan);
    }

    /// Ends a burst of filled loans, and passes up to `most` loans on, with `more` bytes than frames need. Some buffers stay
    /// in the guest's ring if frames are copied to it, as those in the queue's own buffers are. Reports whether any were lent.
    #[inline(always)]
    pub(in crate::port) fn relend(
        &self,
        guest: &GuestBuffers,
        most: usize,
        more: u32,
        own_out: usize,
        to: &mut impl PassOn,
    ) -> bool {
        let mapped = &*self.mapped;
        let mut waiting = self.waiting.borrow_mut();
        let waited = waiting.len();
        guest.ring().settle(|loan| waiting.push(loan));
        // These in this order, as the one includes the other.
        mapped.unclaimed.add((waiting.len() - waited) as u64);
        mapped.split.add(self.taken_apart.take().into());
        let exclusive = mapped.is_exclusive() && own_out == 0;
        let most = if mapped.copies() {
            guest.ration(&mut waiting, most, KEEP_ALL)
        } else if !exclusive && mapped.keep() > KEEP {
            guest.ration(&mut waiting, most, mapped.keep())
        } else {
            most
        };
        let keep = if exclusive { 0 } else { self.keep_beside(own_out as u32) };
        let mut passed_on = PassedOn { to, last: None, refused: false };
        let again = pass_on_waiting(&mut waiting, guest, most, &mut passed_on);
        let terms = Terms { room: self.room + more, keep, most: most - again };
        let fresh = if passed_on.refused { 0 } else { guest.lend(terms, &mut passed_on) };
        let PassedOn { last, refused, .. } = passed_on;
        if refused {
            // The guest's ring copies to it next.
            mapped.unfit.set(REFUSED);
        } else if fresh < terms.most {
            mapped.unfit.set(guest.ring().unfit(terms).map_or(0, |len| len.max(1).into()));
        }
        if let Some(last) = last {
            self.lent(last);
        }
        // Also if the guest's ring turned out to be broken after some were lent.
        last.is_some()
    }

    /// Returns how many of the guest's buffers stay with it beside this number of the queue's own that are out. Each frame that comes in
    /// one of these needs one of the guest's: when frames cease to be copied, as many as are out, and later as many as a burst has.
    #[inline(always)]
    fn keep_beside(&self, own_out: u32) -> u32 {
        let mapped = &*self.mapped;
        if mapped.copies() {
            self.was_copying.set(true);
        } else if own_out <= KEEP || mapped.keep() > KEEP || mapped.unfit.get() != 0 {
            self.was_copying.set(false);
        }
        if self.was_copying.get() { KEEP.max(own_out) } else { KEEP }
    }

    /// Returns all loans to the guest: `held`, and those that wait.
    pub(in crate::port) fn recall(&self, guest: &GuestBuffers, held: impl IntoIterator<Item = Loan>) {
        held.into_iter().chain(self.waiting.borrow_mut().drain(..)).for_each(|loan| guest.ring().give_back(loan));
        self.timed.set(None);
        self.mapped.on_loan.set(0);
        // The next guest's buffers may be fit.
        self.mapped.unfit.set(0);
    }
}

/// Passes up to `most` loans on that came back without a frame for the guest. Returns their number.
#[inline(always)]
fn pass_on_waiting(waiting: &mut Vec<Loan>, guest: &GuestBuffers, most: usize, to: &mut impl Borrower) -> usize {
    let mut passed_on = 0;
    while passed_on < most
        && let Some(loan) = waiting.pop()
    {
        if let Err(refused) = to.put(loan) {
            guest.ring().give_back(refused);
            break;
        }
        passed_on += 1;
    }
    passed_on
}
