//! The protocol of a receive half that may fill a guest's buffers: receive, then recycle, or idle if nothing came.

use super::{GuestBuffers, ZeroCopyRx};
use crate::port::RxQueue;
use packet::Burst;
use virtqueue::ordering;

/// A receive half, and the guest whose buffers it fills, if there is one now.
#[derive(Clone, Copy)]
pub(crate) struct Source<'p> {
    half: &'p dyn RxQueue,
    lent: Option<(&'p dyn ZeroCopyRx, &'p GuestBuffers)>,
}

impl<'p> Source<'p> {
    /// Returns the source of frames of `half`.
    #[inline(always)]
    pub(crate) fn new(half: &'p dyn RxQueue, lent: Option<(&'p dyn ZeroCopyRx, &'p GuestBuffers)>) -> Source<'p> {
        Source { half, lent }
    }

    /// Receives a burst. See [`RxQueue::receive`].
    #[inline(always)]
    pub(crate) fn receive(&self, burst: &mut Burst<'_, 'p>) -> bool {
        match self.lent {
            Some((lend, guest)) => lend.receive_into(guest, burst),
            None => self.half.receive(burst),
        }
    }

    /// Lends buffers although nothing was received.
    #[inline(always)]
    pub(crate) fn idle(&self) {
        if let Some((lend, guest)) = self.lent
            && lend.relend(guest)
        {
            // Without a frame, nothing else in the round notifies a filler that ran out of buffers and waits.
            ordering::before_asking();
            self.half.notify();
        }
    }

    /// Returns what was received: other buffers of the guest are lent in place of those that were filled.
    #[inline(always)]
    pub(crate) fn recycle(&self) {
        match self.lent {
            Some((lend, guest)) => drop(lend.relend(guest)),
            None => self.half.recycle(),
        }
    }

    /// Returns the half that lends, and the guest.
    #[inline(always)]
    pub(crate) fn lent(&self) -> Option<(&'p dyn ZeroCopyRx, &'p GuestBuffers)> {
        self.lent
    }
}
