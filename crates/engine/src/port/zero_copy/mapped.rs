//! State that the control side and a mapped queue share: whether buffers are lent, and counters.

use super::direction::Direction;
use crate::counters::Counter;
use packet::MAX_BURST;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trials::Trials;
use virtqueue::memory::Memory;

/// Minimum length of a lent buffer: an Ethernet frame of 1514 bytes with a VLAN tag, after a virtio header.
pub const LEND_ROOM: u32 = virtqueue::NET_HEADER + 1518;

/// Number of frames in flight between a physical queue and a guest, which rings hold, when frames begin to be copied or cease to be.
const SETTLE: u32 = 4 * trials::SETTLE;

/// Buffers that stay in the guest's ring if frames may also come from elsewhere, or in buffers of the switch: a burst,
/// which is copied to them at once.
pub(super) const KEEP: u32 = MAX_BURST as u32;

/// Stands for all buffers: none is lent.
pub(super) const KEEP_ALL: u32 = u32::MAX;

/// Minimum number of buffers that a physical queue offers, its own included, so that frames for others still pass when
/// the guest has posted none: two bursts.
pub(in crate::port) const RESERVE: u16 = 64;

/// The same when its worker sleeps, for exclusive queues too: nobody reports that the guest has posted more, and
/// without buffers no frame would wake the worker. At most [`KEEP`], as they are copied to buffers that stay.
pub(in crate::port) const RESERVE_ASLEEP: u16 = 16;

/// State shared between the control side and a mapped queue.
#[derive(Debug, Default)]
pub struct Mapped {
    /// Whether the filler can write to the guest's memory, and that memory if so.
    reachable: AtomicBool,
    memory: Mutex<Option<Arc<Memory>>>,
    /// The guest's transmit queue, if its frames may be sent without a copy; else zero.
    in_place_from: AtomicU64,
    /// Whether the guest gets frames from this queue only.
    pass_through: bool,
    /// The same, and none of them is taken apart on the way.
    exclusive: AtomicBool,
    /// Number of buffers that stay in the guest's ring, unless the queue is exclusive. If frames are taken apart, the queue sets
    /// it ([`super::share`]), to more than [`KEEP`].
    keep: AtomicU32,
    thresholds: Thresholds,
    /// Whether frames to the guest are copied at present, as they are shorter than that: none of its buffers is lent.
    copies: AtomicBool,
    /// Bytes by which frames grow on their way to the guest; negative if they shrink.
    growth: AtomicI32,
    /// Buffers on loan now.
    pub on_loan: Counter,
    /// Frames received into the guest's buffers.
    pub in_place: Counter,
    /// Of these, frames that the guest did not get in place: for another destination, dropped, or taken apart.
    pub unclaimed: Counter,
    /// Of these, frames that were taken apart.
    pub split: Counter,
    /// Frames received into buffers of the switch, because the guest's ran out or because they were steered there.
    pub copied: Counter,
    /// Of these, frames before the last loan.
    pub(super) copied_before: Counter,
    /// Frames of the guest sent without a copy.
    pub sent_in_place: Counter,
    /// Frames sent after a copy.
    pub sent_copied: Counter,
    /// Longest loan among those timed, in microseconds.
    pub longest: Counter,
    /// Length of the guest's next buffer if it is too short to lend, [`REFUSED`] if the filler refused it,
    /// else zero.
    pub(super) unfit: Counter,
}

/// The length in bytes from which frames stay in place, for each direction.
#[derive(Debug)]
enum Thresholds {
    /// As configured.
    Fixed(u32),
    /// Found while frames flow. All stay in place before the first trial.
    Tried(DirectionTrials),
}

/// The trials of both directions.
#[derive(Debug)]
pub(super) struct DirectionTrials {
    to_guest: Arc<Trials>,
    from_guest: Arc<Trials>,
}

impl DirectionTrials {
    #[inline(always)]
    pub(super) fn in_direction(&self, direction: Direction) -> &Arc<Trials> {
        match direction {
            Direction::ToGuest => &self.to_guest,
            Direction::FromGuest => &self.from_guest,
        }
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        let [to_guest, from_guest] = [(); 2].map(|()| Arc::new(Trials::new(0, SETTLE)));
        Thresholds::Tried(DirectionTrials { to_guest, from_guest })
    }
}

impl Mapped {
    /// Returns the state of a mapping. `pass_through`: the guest gets frames from nowhere else. Frames of `copy_break` bytes or more
    /// stay in place; if `None`, those do for which it is faster.
    pub fn new(pass_through: bool, copy_break: Option<u32>) -> Mapped {
        let thresholds = copy_break.map_or_else(Thresholds::default, Thresholds::Fixed);
        let mapped = Mapped { pass_through, thresholds, ..Mapped::default() };
        mapped.set_splits(false);
        mapped
    }

    /// Returns the trials that find the lengths, unless they are configured.
    pub(super) fn trials(&self) -> Option<&DirectionTrials> {
        match &self.thresholds {
            Thresholds::Tried(trials) => Some(trials),
            Thresholds::Fixed(_) => None,
        }
    }

    /// Returns the length in bytes from which frames stay in place just now. Those to the guest do so for as long as the mean of a
    /// burst has it.
    #[inline(always)]
    pub(in crate::port) fn threshold(&self, direction: Direction) -> u32 {
        match &self.thresholds {
            Thresholds::Fixed(length) => *length,
            Thresholds::Tried(trials) => trials.in_direction(direction).now(),
        }
    }

    /// Returns the length in bytes from which frames stay in place: as configured, or as last found.
    pub(crate) fn found_threshold(&self, direction: Direction) -> u32 {
        match &self.thresholds {
            Thresholds::Fixed(length) => *length,
            Thresholds::Tried(trials) => trials.in_direction(direction).found(),
        }
    }

    /// Returns the number of frames in place so far.
    #[inline(always)]
    pub(super) fn in_place_in(&self, direction: Direction) -> u64 {
        match direction {
            Direction::ToGuest => self.in_place.get(),
            Direction::FromGuest => self.sent_in_place.get(),
        }
    }

    /// Sets whether frames to the guest are copied, although its buffers could be lent.
    #[inline(always)]
    pub(super) fn set_copies(&self, copies: bool) {
        if self.copies() != copies {
            self.copies.store(copies, Ordering::Relaxed);
        }
    }

    /// Reports whether frames to the guest are copied, although its buffers could be lent.
    #[inline(always)]
    pub(super) fn copies(&self) -> bool {
        self.copies.load(Ordering::Relaxed)
    }

    /// Sets whether frames are taken apart on their way to the guest. If so, nothing is lent before the queue has received
    /// some that are not.
    pub fn set_splits(&self, splits: bool) {
        self.exclusive.store(self.pass_through && !splits, Ordering::Relaxed);
        self.set_keep(if splits { KEEP_ALL } else { KEEP });
    }

    /// Reports whether the guest gets all frames of this queue, as they come, and no others.
    #[inline(always)]
    pub(super) fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Relaxed)
    }

    /// Sets the number of buffers that stay in the guest's ring.
    pub(super) fn set_keep(&self, buffers: u32) {
        self.keep.store(buffers, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn keep(&self) -> u32 {
        self.keep.load(Ordering::Relaxed)
    }

    /// Sets the memory of the guest whose buffers may be lent from now on; `None` if none may be.
    pub fn set_reachable(&self, memory: Option<Arc<Memory>>) {
        let reachable = memory.is_some();
        *self.memory.lock().unwrap() = memory;
        self.reachable.store(reachable, Ordering::Release);
    }

    /// Returns the memory of the guest whose buffers may be lent.
    pub(in crate::port) fn memory(&self) -> Option<Arc<Memory>> {
        self.memory.lock().unwrap().clone()
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

    #[inline(always)]
    pub(in crate::port) fn growth(&self) -> i32 {
        self.growth.load(Ordering::Relaxed)
    }

    /// Sets the queue whose frames may be sent without a copy: [`virtqueue::device::Dequeue::id`], or zero.
    pub fn set_in_place_from(&self, queue: u64) {
        self.in_place_from.store(queue, Ordering::Release);
    }

    /// Returns the queue set by [`Mapped::set_in_place_from`].
    #[inline(always)]
    pub fn in_place_from(&self) -> u64 {
        self.in_place_from.load(Ordering::Acquire)
    }

    /// Returns the length from which the guest's frames may be sent without a copy; [`u32::MAX`] if all are copied.
    #[inline(always)]
    pub(in crate::port) fn keeps_from(&self) -> u32 {
        if self.in_place_from() == 0 { u32::MAX } else { self.threshold(Direction::FromGuest) }
    }

    /// Returns the minimum number of buffers to offer, the queue's own included, while its worker polls.
    #[inline(always)]
    pub(in crate::port) fn reserve(&self) -> u16 {
        let (unfit, lends) = (self.unfit.get() != 0, self.on_loan.get() > 0);
        if self.copies() || (!lends && self.keep() > KEEP) {
            // A queue that could lend and does not is as deep as one without a mapping.
            u16::MAX
        } else if !lends && unfit {
            // The same for a guest whose buffers are never fit. Among a few that are not, each own buffer is filled before the
            // next loan, so that it gets deeper only while it copies.
            RESERVE.saturating_add((self.copied.get() - self.copied_before.get()).try_into().unwrap_or(u16::MAX))
        } else if self.is_exclusive() && !unfit {
            0
        } else {
            RESERVE
        }
    }

    /// Explains why no buffer is on loan, if the cause is the guest's buffers, or the length of the frames.
    pub fn why_none(&self) -> Option<String> {
        if self.copies() {
            let from = self.found_threshold(Direction::ToGuest);
            let known = if self.trials().is_some() { "measured" } else { "`copy-break`" };
            return Some(format!(
                "frames are shorter than {from} bytes on average, for which a copy is faster ({known})"
            ));
        }
        match self.unfit.get() {
            _ if self.on_loan.get() > 0 => None,
            0 => None,
            REFUSED => Some(
                "the port did not take the guest's buffers: they lie across pages or regions of its memory (use huge pages), \
                 or the port still has buffers of another queue"
                    .into(),
            ),
            len => Some(format!("the guest posts buffers of {len} bytes in one piece, which is too short")),
        }
    }
}

/// Value of [`Mapped::unfit`] for a buffer that is long enough, but was refused: it lies where it cannot be filled, or the filler still has
/// loans of another queue.
pub(super) const REFUSED: u64 = u64::MAX;
