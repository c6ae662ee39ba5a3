//! The loans of a mapped queue: buffers that the guest posted and the filler of the queue has, or will get.

use super::guest::GuestBuffers;
use super::mapped::{KEEP, MISPLACED, Mapped};
use packet::Burst;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;
use virtqueue::device::{Landing, Loan};

/// Loans that the receive half of a mapped queue has not passed on.
pub(in crate::port) struct Lending {
    mapped: Arc<Mapped>,
    /// Shortest buffer that is lent.
    room: u32,
    /// Loans that came back and will be lent again.
    waiting: RefCell<Vec<Loan>>,
    /// The one loan that is timed: its key, and when it was lent.
    timed: Cell<Option<(u64, Instant)>>,
}

impl Lending {
    /// Returns an empty set of at most `most` loans, for buffers of at least `room` bytes.
    pub(in crate::port) fn new(mapped: Arc<Mapped>, room: u32, most: usize) -> Lending {
        Lending { mapped, room, waiting: RefCell::new(Vec::with_capacity(most)), timed: Cell::new(None) }
    }

    #[inline(always)]
    pub(in crate::port) fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Takes back the loan known by `key`, filled with a frame. Adds the frame to `burst`, or keeps the loan to be lent
    /// again. Reports whether there was a frame.
    #[inline(always)]
    pub(in crate::port) fn filled<'q>(
        &self,
        (key, loan): (u64, Loan),
        landing: Landing<'q>,
        guest: &'q GuestBuffers,
        burst: &mut Burst<'_, 'q>,
    ) -> bool {
        if let Some((timed, since)) = self.timed.get()
            && timed == key
        {
            let longest = &self.mapped.longest;
            longest.set(longest.get().max(since.elapsed().as_micros() as u64));
            self.timed.set(None);
        }
        match guest.ring().take_filled(loan, landing, burst) {
            None => true,
            Some(unusable) => {
                self.waiting.borrow_mut().push(unusable);
                false
            }
        }
    }

    /// Keeps a loan that came back while there is no guest, until there is one.
    pub(in crate::port) fn strand(&self, loan: Loan) {
        self.waiting.borrow_mut().push(loan);
    }

    /// Ends a burst of filled loans, and passes up to `most` loans to `put`, with `more` bytes than frames need. `put`
    /// returns the loan's key, or the loan if it cannot be filled. Some buffers stay in the guest's ring if the queue
    /// also offers its own. Reports whether any were lent.
    #[inline(always)]
    pub(in crate::port) fn relend(
        &self,
        guest: &GuestBuffers,
        (most, more): (usize, u32),
        own_out: bool,
        mut put: impl FnMut(Loan) -> Result<u64, Loan>,
    ) -> bool {
        let (mapped, room) = (&*self.mapped, self.room + more);
        let mut waiting = self.waiting.borrow_mut();
        let waited = waiting.len();
        guest.ring().settle(|loan| waiting.push(loan));
        mapped.elsewhere.add((waiting.len() - waited) as u64);
        let keep = if mapped.exclusive && !own_out { 0 } else { KEEP };
        let mut any = false;
        for _ in 0..most {
            let Some(loan) = waiting.pop().or_else(|| guest.lend(room, keep)) else {
                mapped.unfit.set(guest.ring().unfit(room, keep).map_or(0, |len| len.max(1).into()));
                break;
            };
            match put(loan) {
                Ok(key) => {
                    any = true;
                    if self.timed.get().is_none() {
                        self.timed.set(Some((key, Instant::now())));
                    }
                }
                Err(misplaced) => {
                    // The guest's ring copies to it next.
                    guest.ring().give_back(misplaced);
                    mapped.unfit.set(MISPLACED);
                    break;
                }
            }
        }
        any
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
