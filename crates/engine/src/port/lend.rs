//! Receive queue mapping: a physical queue receives into the buffers that a guest posted.
//!
//! The one verb that such a queue has more than others is to lend: its worker takes posted buffers from the guest and
//! offers them to whatever fills the queue. A frame that comes back in one of them and is sent to that guest is where it
//! belongs; any other is copied from there, and its buffer goes out again.

use super::vhost_user::VhostTransmit;
use crate::counters::Counter;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Instant;
use virtqueue::Burst;
use virtqueue::device::{Landing, Loan};

/// Shortest buffer that is lent: an Ethernet frame of 1514 bytes with a VLAN tag, behind a virtio header.
pub const LEND_ROOM: u32 = virtqueue::NET_HEADER + 1518;

/// Buffers that stay with the guest's queue when frames may come for it from elsewhere, or in buffers of the switch.
const KEEP: u32 = 16;

/// Buffers that a physical queue offers at least, of its own if the guest has posted none, so that frames for others
/// still pass: two bursts.
pub(super) const RESERVE: u16 = 64;

/// The same when its worker sleeps, whoever gets the frames: nobody says that the guest has posted more, and without
/// buffers no frame would ever wake the worker. No more than stay with the guest's queue, to be copied to.
pub(super) const RESERVE_ASLEEP: u16 = KEEP as u16;

/// The receive half of a physical queue that can fill buffers of a guest.
pub trait Lend {
    /// As [`super::Receive::receive`]; frames may lie in buffers of `guest`.
    fn receive_into<'q>(&'q self, guest: &'q VhostTransmit, burst: &mut Burst<'_, 'q>) -> bool;

    /// As [`super::Receive::recycle`]; also offers as many of the guest's buffers as there is room for. Called once a
    /// round, whether or not there was a frame. Returns whether any went out, or any of the switch's own, of which whoever
    /// fills them has to be told.
    fn relend(&self, guest: &VhostTransmit) -> bool;

    /// Gives all loans back. Nothing may fill them any more. Returns how many frames are lost, which were received and not
    /// looked at yet.
    fn recall(&self, guest: &VhostTransmit) -> u64;
}

/// What the control side and a mapped queue know of each other.
#[derive(Debug, Default)]
pub struct Mapped {
    /// The guest's memory can be written to by whatever fills the queue.
    reachable: AtomicBool,
    /// The guest's transmit queue, if frames can be sent from where they lie in its memory; else zero.
    keeper: AtomicU64,
    /// Only this queue's frames go to the guest.
    exclusive: bool,
    /// From this length on, in bytes, a frame of the guest is sent from where it lies. Shorter ones are copied.
    pub copy_break: u32,
    /// Bytes that frames grow by on their way to the guest, or shrink by if it is negative.
    growth: AtomicI32,
    /// Buffers out at present.
    pub on_loan: Counter,
    /// Frames that were received into the guest's own buffers.
    pub in_place: Counter,
    /// Of these, frames for somebody else.
    pub elsewhere: Counter,
    /// Frames that were received into buffers of the switch, for want of the guest's or because they were steered there.
    pub copied: Counter,
    /// Frames that were sent from where they lie in the guest's memory, and those that were copied first.
    pub sent_in_place: Counter,
    /// See above.
    pub sent_copied: Counter,
    /// Longest time that a buffer was out, of those that were timed, in microseconds.
    pub longest: Counter,
    /// Length of the guest's next buffer if it is not fit to be lent, [`MISPLACED`] if it is not for its length, else zero.
    unfit: Counter,
}

impl Mapped {
    /// For a mapping whose guest gets frames from nowhere else, or not, and sends them from where they lie from so many
    /// bytes on.
    pub fn new(exclusive: bool, copy_break: u32) -> Mapped {
        Mapped { exclusive, copy_break, ..Mapped::default() }
    }

    /// Says whether buffers may be lent.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::Release);
    }

    /// Buffers may be lent.
    #[inline(always)]
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Acquire)
    }

    /// Says by how many bytes frames are expected to grow on their way to the guest, as by a VLAN tag, or to shrink. What
    /// is not as expected costs more, and that is all.
    pub fn set_growth(&self, bytes: i32) {
        self.growth.store(bytes, Ordering::Relaxed);
    }

    /// As it was set.
    #[inline(always)]
    pub(super) fn growth(&self) -> i32 {
        self.growth.load(Ordering::Relaxed)
    }

    /// Says which queue's frames may be sent from where they lie: [`virtqueue::device::Dequeue::lender`], or zero.
    pub fn set_keeper(&self, keeper: u64) {
        self.keeper.store(keeper, Ordering::Release);
    }

    /// As it was set.
    #[inline(always)]
    pub fn keeper(&self) -> u64 {
        self.keeper.load(Ordering::Acquire)
    }

    /// How many buffers the queue offers at least, its own included, while its worker polls.
    #[inline(always)]
    pub(super) fn reserve(&self) -> u16 {
        if self.exclusive && self.unfit.get() == 0 { 0 } else { RESERVE }
    }

    /// Why no buffer is out, if it is because of what the guest posts.
    pub fn why_none(&self) -> Option<String> {
        match self.unfit.get() {
            _ if self.on_loan.get() > 0 => None,
            0 => None,
            MISPLACED => Some("the guest's buffers lie across pages or regions of its memory; use huge pages".into()),
            len => Some(format!("the guest posts buffers of {len} bytes in one piece, which is too short")),
        }
    }
}

/// [`Mapped::unfit`] of a buffer that is long enough, but where it can't be filled.
const MISPLACED: u64 = u64::MAX;

/// What the receive half of a mapped queue knows of the loans that it has not handed on.
pub(super) struct Lending {
    mapped: Arc<Mapped>,
    /// Shortest buffer that is lent.
    room: u32,
    /// Loans that came back and go out again.
    waiting: RefCell<Vec<Loan>>,
    /// One loan at a time is timed: by what it is known, and since when it is out.
    timed: Cell<Option<(u64, Instant)>>,
}

impl Lending {
    /// Of buffers of `room` bytes at least, not more than `most` at once.
    pub(super) fn new(mapped: Arc<Mapped>, room: u32, most: usize) -> Lending {
        Lending { mapped, room, waiting: RefCell::new(Vec::with_capacity(most)), timed: Cell::new(None) }
    }

    #[inline(always)]
    pub(super) fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// The loan known by `key` has come back with a frame in it: adds that to `burst`, or keeps the loan to go out again.
    /// Returns whether there was a frame.
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

    /// A loan has come back when there is no guest to give it to: it waits for one.
    pub(super) fn strand(&self, loan: Loan) {
        self.waiting.borrow_mut().push(loan);
    }

    /// Ends a burst of filled loans, and hands up to `most` loans, with `more` bytes than frames need, to `put`, which says
    /// by what each is known from now on, or that it can't be filled. Some stay if the queue also has buffers of its own
    /// out. Returns whether any went out.
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
                    // It is the next to be copied to.
                    guest.ring().give_back(misplaced);
                    mapped.unfit.set(MISPLACED);
                    break;
                }
            }
        }
        any
    }

    /// Gives all loans back: `held`, and those that wait.
    pub(super) fn recall(&self, guest: &VhostTransmit, held: impl IntoIterator<Item = Loan>) {
        held.into_iter().chain(self.waiting.borrow_mut().drain(..)).for_each(|loan| guest.ring().give_back(loan));
        self.timed.set(None);
        self.mapped.on_loan.set(0);
        // What the next guest posts may do.
        self.mapped.unfit.set(0);
    }
}
