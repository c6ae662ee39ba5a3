//! The receive half of a queue.

use crate::abi::{RawReceive, RawSizes};
use crate::frame::{Frame, Kind, Loan};
use crate::half::Half;
use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The part of a receive half that the device and the worker share.
pub(crate) struct ReceiveQueue {
    pub half: Half<RawReceive>,
    pub sizes: RawSizes,
    /// Becomes readable when frames arrive, if `announces`.
    pub events: Option<OwnedFd>,
    pub announces: AtomicBool,
}

/// Buffers that are lent to a queue and have neither been received into nor been taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Out {
    /// A guest's.
    pub guest: u32,
    /// The switch's own.
    pub own: u32,
    /// Those of a guest's that the device has. The others wait in the queue, and [`Receive::reclaim`] takes them back.
    pub guest_at_device: u32,
    /// Those of the switch's own that the device has.
    pub own_at_device: u32,
}

/// Counts of a receive half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveCounts {
    /// Frames that were received.
    pub frames: u64,
    /// Frames that were dropped: they did not fit their buffer, or there was no own buffer to copy them to.
    pub dropped: u64,
    /// Times that the device asked for buffers, and there were not enough.
    pub no_buffer: u64,
}

/// The receive half of a queue: buffers are lent to it, and frames come back in them.
///
/// One worker drives it. It returns nothing while a control function uses its device, and after that has stopped or closed; it stays
/// valid then. After [`Device::open`](crate::Device::open) or a close, buffers at the device come back only by a new half or never.
pub struct Receive {
    queue: Arc<ReceiveQueue>,
    _one_thread: PhantomData<Cell<()>>,
}

impl Receive {
    pub(crate) fn new(queue: Arc<ReceiveQueue>) -> Receive {
        Receive { queue, _one_thread: PhantomData }
    }

    /// Returns descriptors of the device's ring, as it was set up.
    pub fn ring(&self) -> usize {
        self.queue.sizes.ring as usize
    }

    /// Returns the number of own buffers with which the device never lacks one, though there are no guest's.
    pub fn reserve(&self) -> usize {
        self.queue.sizes.reserve as usize
    }

    /// Returns how many of the buffers that the device had first it keeps and receives nothing into: some drivers fill a ring for the
    /// other pieces of long frames.
    pub fn idle(&self) -> usize {
        self.queue.sizes.idle as usize
    }

    /// Returns the bytes that a guest's buffer needs from its `start`: the device may write so many.
    pub fn least(&self) -> usize {
        self.queue.sizes.least as usize
    }

    /// Receives frames: up to `frames.len()` records, of which each but a frame's last has [`Frame::more`]. Returns their number. Asks
    /// the device for up to `most` frames, as which it takes as many buffers, or more.
    /// There should be room for 64 or more: a frame of more pieces is dropped.
    #[inline]
    pub fn burst(&mut self, frames: &mut [Frame], most: usize) -> usize {
        let Some(queue) = self.queue.half.running() else { return 0 };
        // SAFETY: the claim gives sole use of a half whose device runs. `frames` has room for so many records.
        unsafe {
            (queue.table().receive_burst)(
                queue.raw(),
                frames.as_mut_ptr(),
                frames.len() as u32,
                most.min(frames.len()) as u32,
            ) as usize
        }
    }

    /// Lends buffers. Returns how many of them, from the first: it ends when there is no more [`room`](Receive::room), or at one that
    /// can't be lent: it is shorter than [`least`](Receive::least), or it and the room that was declared for the device are not in
    /// one live [`Region`](crate::Region). While a control function uses the device, it takes none.
    #[inline]
    pub fn lend(&mut self, kind: Kind, loans: &[Loan]) -> usize {
        let Some(queue) = self.queue.half.try_claim() else { return 0 };
        // SAFETY: the claim gives sole use of the half. `loans` has so many records. The plugin checks that each lies in a region that
        // `Device::share` was given, whose memory stays mapped as long as a loan in it is out (`Shared::unshare`).
        unsafe { (queue.table().receive_lend)(queue.raw(), kind as u32, loans.as_ptr(), loans.len() as u32) as usize }
    }

    /// Reports whether a buffer can't be lent though there is room: [`lend`](Receive::lend) ends at it each time.
    pub fn refuses(&mut self, kind: Kind, loan: &Loan) -> bool {
        let Some(queue) = self.queue.half.try_claim() else { return false };
        // SAFETY: the claim gives sole use of the half, which only reads the record.
        unsafe { !(queue.table().receive_takes)(queue.raw(), kind as u32, loan) }
    }

    /// Returns how many more buffers of this kind can be lent.
    pub fn room(&self, kind: Kind) -> usize {
        let out = self.out();
        let out = if kind == Kind::Guest { out.guest } else { out.own };
        (self.queue.sizes.capacity as usize).saturating_sub(out as usize)
    }

    /// Returns how many buffers are lent.
    pub fn out(&self) -> Out {
        out(&self.queue.half)
    }

    /// Takes back the buffers of this kind that the device does not have, and appends their ids to `ids`. Buffers that it has come
    /// once it is stopped, or never.
    pub fn reclaim(&mut self, kind: Kind, ids: &mut Vec<u32>) {
        let queue = self.queue.half.claim();
        let start = ids.len();
        ids.resize(start + self.queue.sizes.capacity as usize, 0);
        let room = &mut ids[start..];
        // SAFETY: the claim gives sole use of the half, and `room` has room for so many ids.
        let count =
            unsafe { (queue.table().receive_reclaim)(queue.raw(), kind as u32, room.as_mut_ptr(), room.len() as u32) };
        ids.truncate(start + count as usize);
    }

    /// Returns counts of the queue.
    pub fn counts(&self) -> ReceiveCounts {
        counts(&self.queue.half)
    }

    /// Returns a descriptor that becomes readable when frames arrive, after [`arm`](Receive::arm). There is one if the configuration
    /// asks for it, the driver announces frames, and the device has been started.
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        let announces = self.queue.announces.load(Ordering::Acquire);
        self.queue.events.as_ref().filter(|_| announces).map(AsFd::as_fd)
    }

    /// Makes the descriptor unreadable, and asks the device to announce frames. Returns false if it can't, or if frames may be there
    /// already. If true, ask for a burst once more before you wait: one may have arrived meanwhile.
    pub fn arm(&self) -> bool {
        let (Some(queue), Some(events)) = (self.queue.half.running(), &self.queue.events) else { return false };
        // SAFETY: the claim gives sole use of a half whose device runs. The descriptor is an epoll's, which is open.
        unsafe { (queue.table().receive_arm)(queue.raw(), events.as_raw_fd()) }
    }

    /// Ends announcements.
    pub fn disarm(&self) {
        let Some(queue) = self.queue.half.running() else { return };
        // SAFETY: the claim gives sole use of a half whose device runs.
        unsafe { (queue.table().receive_disarm)(queue.raw()) }
    }
}

/// Returns how many buffers are lent to a half.
pub(crate) fn out(half: &Half<RawReceive>) -> Out {
    // SAFETY: the half is open; the plugin reads its counters as atomics.
    let out = unsafe { (half.table().receive_out)(half.peek()) };
    Out {
        guest: out.guest,
        own: out.own,
        guest_at_device: out.guest.saturating_sub(out.guest_waiting),
        own_at_device: out.own.saturating_sub(out.own_waiting),
    }
}

/// Returns counts of a half.
pub(crate) fn counts(half: &Half<RawReceive>) -> ReceiveCounts {
    // SAFETY: the half is open; the plugin reads its counters as atomics.
    let counts = unsafe { (half.table().receive_counts)(half.peek()) };
    ReceiveCounts { frames: counts.frames, dropped: counts.dropped, no_buffer: counts.no_buffer }
}
