//! Receive queue mapping: a physical queue receives into the buffers that a guest posted.
//!
//! The worker of such a queue lends: it takes posted buffers from the guest and offers them to the backend or kernel
//! that fills the queue (the filler). A frame that comes back in one and is for that guest is already in place; any
//! other is copied out, and its buffer is lent again.

use super::vhost_user::VhostTransmit;
use crate::counters::Counter;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Instant;
use virtqueue::Burst;
use virtqueue::device::{Landing, Loan};

/// Minimum length of a lent buffer: an Ethernet frame of 1514 bytes with a VLAN tag, behind a virtio header.
pub const LEND_ROOM: u32 = virtqueue::NET_HEADER + 1518;

/// Buffers that stay in the guest's ring if frames may also come from elsewhere, or in buffers of the switch.
const KEEP: u32 = 16;

/// Minimum number of buffers that a physical queue offers, its own included, so that frames for others still pass when
/// the guest has posted none: two bursts.
pub(super) const RESERVE: u16 = 64;

/// The same when its worker sleeps, for exclusive queues too: nobody reports that the guest has posted more, and
/// without buffers no frame would wake the worker. At most the number that stays in the guest's ring, to be copied to.
pub(super) const RESERVE_ASLEEP: u16 = KEEP as u16;

/// Receive half of a physical queue that can fill a guest's buffers.
pub trait Lend {
    /// Like [`super::Receive::receive`]; frames may lie in buffers of `guest`.
    fn receive_into<'q>(&'q self, guest: &'q VhostTransmit, burst: &mut Burst<'_, 'q>) -> bool;

    /// Like [`super::Receive::recycle`]; also offers as many of the guest's buffers as there is room for. Called once
    /// per round, even without frames. Reports whether any buffer was offered, the switch's own included, so that the
    /// filler must be notified.
    fn relend(&self, guest: &VhostTransmit) -> bool;

    /// Returns all loans to the guest. Nothing may fill them any more. Returns how many frames are lost, received but
    /// not yet read.
    fn recall(&self, guest: &VhostTransmit) -> u64;
}

/// State shared between the control side and a mapped queue.
#[derive(Debug, Default)]
pub struct Mapped {
    /// Whether the filler can write to the guest's memory.
    reachable: AtomicBool,
    /// The guest's transmit queue, if its frames may be sent without a copy; else zero.
    keeper: AtomicU64,
    /// Whether the guest gets frames from this queue only.
    exclusive: bool,
    /// Length in bytes from which a guest's frame is sent without a copy.
    pub copy_break: u32,
    /// Bytes by which frames grow on their way to the guest; negative if they shrink.
    growth: AtomicI32,
    /// Buffers on loan now.
    pub on_loan: Counter,
    /// Frames received into the guest's buffers.
    pub in_place: Counter,
    /// Of these, frames for another destination.
    pub elsewhere: Counter,
    /// Frames received into buffers of the switch, because the guest's ran out or because they were steered there.
    pub copied: Counter,
    /// Frames of the guest sent without a copy.
    pub sent_in_place: Counter,
    /// Frames sent after a copy.
    pub sent_copied: Counter,
    /// Longest loan among those timed, in microseconds.
    pub longest: Counter,
    /// Length of the guest's next buffer if it is too short to lend, [`MISPLACED`] if it is unfit for another reason,
    /// else zero.
    unfit: Counter,
}

impl Mapped {
    /// Returns the state of a mapping. `exclusive`: the guest gets frames from nowhere else. From `copy_break` bytes
    /// on, its frames are sent without a copy.
    pub fn new(exclusive: bool, copy_break: u32) -> Mapped {
        Mapped { exclusive, copy_break, ..Mapped::default() }
    }

    /// Sets whether buffers may be lent.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::Release);
    }

    /// Reports whether buffers may be lent.
    #[inline(always)]
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Acquire)
    }

    /// Sets by how many bytes frames are expected to grow (as by a VLAN tag) or shrink on their way to the guest. A
    /// wrong expectation only costs time.
    pub fn set_growth(&self, bytes: i32) {
        self.growth.store(bytes, Ordering::Relaxed);
    }

    /// Returns the expected growth.
    #[inline(always)]
    pub(super) fn growth(&self) -> i32 {
        self.growth.load(Ordering::Relaxed)
    }

    /// Sets the queue whose frames may be sent without a copy: [`virtqueue::device::Dequeue::lender`], or zero.
    pub fn set_keeper(&self, keeper: u64) {
        self.keeper.store(keeper, Ordering::Release);
    }

    /// Returns the queue set by [`Mapped::set_keeper`].
    #[inline(always)]
    pub fn keeper(&self) -> u64 {
        self.keeper.load(Ordering::Acquire)
    }

    /// Returns the minimum number of buffers to offer, the queue's own included, while its worker polls.
    #[inline(always)]
    pub(super) fn reserve(&self) -> u16 {
        if self.exclusive && self.unfit.get() == 0 { 0 } else { RESERVE }
    }

    /// Explains why no buffer is on loan, if the cause is the guest's buffers.
    pub fn why_none(&self) -> Option<String> {
        match self.unfit.get() {
            _ if self.on_loan.get() > 0 => None,
            0 => None,
            MISPLACED => Some("the guest's buffers lie across pages or regions of its memory; use huge pages".into()),
            len => Some(format!("the guest posts buffers of {len} bytes in one piece, which is too short")),
        }
    }
}

/// Value of [`Mapped::unfit`] for a buffer that is long enough, but lies where it cannot be filled.
const MISPLACED: u64 = u64::MAX;

/// Loans that the receive half of a mapped queue has not passed on.
pub(super) struct Lending {
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
    pub(super) fn new(mapped: Arc<Mapped>, room: u32, most: usize) -> Lending {
        Lending { mapped, room, waiting: RefCell::new(Vec::with_capacity(most)), timed: Cell::new(None) }
    }

    #[inline(always)]
    pub(super) fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Takes back the loan known by `key`, filled with a frame. Adds the frame to `burst`, or keeps the loan to be lent
    /// again. Reports whether there was a frame.
    #[inline(always)]
    pub(super) fn filled<'q>(
        &self,
        (key, loan): (u64, Loan),
        landing: Landing<'q>,
        guest: &'q VhostTransmit,
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
    pub(super) fn strand(&self, loan: Loan) {
        self.waiting.borrow_mut().push(loan);
    }

    /// Ends a burst of filled loans, and passes up to `most` loans to `put`, with `more` bytes than frames need. `put`
    /// returns the loan's key, or the loan if it cannot be filled. Some buffers stay in the guest's ring if the queue
    /// also offers its own. Reports whether any were lent.
    #[inline(always)]
    pub(super) fn relend(
        &self,
        guest: &VhostTransmit,
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
    pub(super) fn recall(&self, guest: &VhostTransmit, held: impl IntoIterator<Item = Loan>) {
        held.into_iter().chain(self.waiting.borrow_mut().drain(..)).for_each(|loan| guest.ring().give_back(loan));
        self.timed.set(None);
        self.mapped.on_loan.set(0);
        // The next guest's buffers may be fit.
        self.mapped.unfit.set(0);
    }
}
