//! Receive queue mapping: a physical queue receives into the buffers that a guest posted.
//!
//! The one verb that such a queue has more than others is to lend: its worker takes posted buffers from the guest and
//! offers them to whatever fills the queue. A frame that comes back in one of them and is sent to that guest is where it
//! belongs; any other is copied from there, and its buffer goes out again.

use super::vhost_user::VhostTransmit;
use crate::counters::Counter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use virtqueue::Burst;
use virtqueue::device::Loan;

/// Shortest buffer that is lent: an Ethernet frame of 1514 bytes with a VLAN tag, behind a virtio header.
pub const LEND_ROOM: u32 = virtqueue::NET_HEADER + 1518;

/// Buffers that stay with the guest's queue when frames may come for it from elsewhere.
const KEEP: u32 = 16;

/// Buffers that a physical queue offers at least, of its own if the guest has posted none, so that frames for others
/// still pass: two bursts.
const RESERVE: u16 = 64;

/// The receive half of a physical queue that can fill buffers of a guest.
pub trait Lend {
    /// As [`super::Receive::receive`]; frames may lie in buffers of `guest`.
    fn receive_into<'q>(&'q self, guest: &'q VhostTransmit, burst: &mut Burst<'_, 'q>) -> bool;

    /// As [`super::Receive::recycle`]; also offers as many of the guest's buffers as there is room for. Called once a
    /// round, whether or not there was a frame.
    fn relend(&self, guest: &VhostTransmit);

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
    /// The guest's next buffer is no place for a frame.
    unfit: AtomicBool,
    /// Buffers out at present.
    pub on_loan: Counter,
    /// Frames that were received into the guest's own buffers.
    pub in_place: Counter,
    /// Of these, frames for somebody else.
    pub elsewhere: Counter,
    /// Frames that were received into buffers of the switch, for want of the guest's.
    pub copied: Counter,
    /// Frames that were sent from where they lie in the guest's memory, and those that were copied first.
    pub sent_in_place: Counter,
    /// See above.
    pub sent_copied: Counter,
    /// Longest time that a buffer was out, of those that were timed, in microseconds.
    pub longest: Counter,
}

impl Mapped {
    /// For a mapping whose guest gets frames from nowhere else, or not.
    pub fn new(exclusive: bool) -> Mapped {
        Mapped { exclusive, ..Mapped::default() }
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

    /// Says which queue's frames may be sent from where they lie: [`virtqueue::device::Dequeue::lender`], or zero.
    pub fn set_keeper(&self, keeper: u64) {
        self.keeper.store(keeper, Ordering::Release);
    }

    /// As it was set.
    #[inline(always)]
    pub fn keeper(&self) -> u64 {
        self.keeper.load(Ordering::Acquire)
    }

    /// The guest's next buffer is too short for a frame, or in pieces.
    #[inline(always)]
    pub fn is_unfit(&self) -> bool {
        self.unfit.load(Ordering::Relaxed)
    }

    /// A loan that was timed took so long.
    pub(super) fn time(&self, taken: Duration) {
        self.longest.set(self.longest.get().max(taken.as_micros() as u64));
    }

    /// How many buffers the queue offers at least, its own included.
    #[inline(always)]
    pub(super) fn reserve(&self) -> u16 {
        match self.exclusive {
            // All: what the guest does not take in place has to be copied.
            _ if self.is_unfit() => u16::MAX,
            true => 0,
            false => RESERVE,
        }
    }

    /// The next buffer of `guest`.
    #[inline(always)]
    pub(super) fn lend(&self, guest: &VhostTransmit) -> Option<Loan> {
        let loan = guest.lend(LEND_ROOM, if self.exclusive { 0 } else { KEEP });
        let unfit = loan.is_none() && guest.ring().is_unfit(LEND_ROOM);
        if unfit != self.is_unfit() {
            self.unfit.store(unfit, Ordering::Relaxed);
        }
        loan
    }
}
