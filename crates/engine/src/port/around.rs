//! Wrappers of halves. By default a wrapper delegates to the half inside, so that no ability of a half is lost by an omission.

use super::zero_copy::{GuestBuffers, ZeroCopyRx};
use super::{Receive, Sent, Transmit, Wait};
use packet::{Burst, Frames};
use std::os::fd::BorrowedFd;
use vhost_user::Event;

/// A wrapper of a receive half.
pub(crate) trait AroundReceive: Send {
    /// Returns the half inside.
    fn inner(&self) -> &dyn Receive;
    /// Returns the half inside.
    fn inner_mut(&mut self) -> &mut dyn Receive;

    /// See [`Receive::receive`].
    fn receive_through<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool;

    /// See [`Receive::recycle`].
    fn recycle_through(&self) {
        self.inner().recycle();
    }

    /// See [`Receive::arm`].
    fn arm_through(&self) -> Wait {
        self.inner().arm()
    }

    /// See [`Receive::unrecorded`].
    fn unrecorded_through(&mut self) -> Option<Box<dyn Receive>> {
        None
    }
}

impl<A: AroundReceive> Receive for A {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        self.receive_through(burst)
    }

    fn recycle(&self) {
        self.recycle_through();
    }

    fn notify(&self) {
        self.inner().notify();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner().wake_fd()
    }

    fn arm(&self) -> Wait {
        self.arm_through()
    }

    fn disarm(&self) {
        self.inner().disarm();
    }

    fn rewire(&mut self, kick: Option<Event>) {
        self.inner_mut().rewire(kick);
    }

    fn base(&self) -> Option<u32> {
        self.inner().base()
    }

    fn keep(&self, places: u32) {
        self.inner().keep(places);
    }

    fn release(&self, id: u16) {
        self.inner().release(id);
    }

    fn stop(&mut self) -> u64 {
        self.inner_mut().stop()
    }

    fn unrecorded(&mut self) -> Option<Box<dyn Receive>> {
        self.unrecorded_through()
    }

    /// Frames that the half inside receives into a guest's buffers would bypass this wrapper.
    fn lends(&self) -> Option<&dyn ZeroCopyRx> {
        None
    }
}

/// A wrapper of a transmit half.
pub(crate) trait AroundTransmit: Send {
    /// Returns the half inside.
    fn inner(&self) -> &dyn Transmit;
    /// Returns the half inside.
    fn inner_mut(&mut self) -> &mut Box<dyn Transmit>;

    /// See [`Transmit::transmit`], or [`Transmit::transmit_more`] if there may be `more`.
    fn transmit_through(&self, frames: Frames<'_>, more: bool) -> Sent;

    /// Sends frames through the half inside.
    fn pass(&self, frames: Frames<'_>, more: bool) -> Sent {
        if more { self.inner().transmit_more(frames) } else { self.inner().transmit(frames) }
    }

    /// See [`Transmit::flush`].
    fn flush_through(&self) -> Sent {
        self.inner().flush()
    }

    /// See [`Transmit::transmit_bare`].
    fn transmit_bare_through(&self, frames: Frames<'_>) -> Sent {
        self.transmit_through(frames, false)
    }

    /// See [`Transmit::unrecorded`].
    fn unrecorded_through(&mut self) -> Option<Box<dyn Transmit>> {
        None
    }

    /// See [`Transmit::guest`].
    fn guest_through(&self) -> Option<&GuestBuffers> {
        self.inner().guest()
    }
}

impl<A: AroundTransmit> Transmit for A {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.transmit_through(frames, false)
    }

    fn transmit_more(&self, frames: Frames<'_>) -> Sent {
        self.transmit_through(frames, true)
    }

    fn flush(&self) -> Sent {
        self.flush_through()
    }

    fn transmit_bare(&self, frames: Frames<'_>) -> Sent {
        self.transmit_bare_through(frames)
    }

    fn notify(&self) {
        self.inner().notify();
    }

    fn base(&self) -> Option<u32> {
        self.inner().base()
    }

    fn returned(&self, release: &mut dyn FnMut(u16)) {
        self.inner().returned(release);
    }

    fn keeps(&self) -> bool {
        self.inner().keeps()
    }

    fn recall(&self, release: &mut dyn FnMut(u16)) {
        self.inner().recall(release);
    }

    fn stop(&mut self) {
        self.inner_mut().stop();
    }

    fn inside(&mut self) -> Option<&mut Box<dyn Transmit>> {
        Some(self.inner_mut())
    }

    fn unrecorded(&mut self) -> Option<Box<dyn Transmit>> {
        self.unrecorded_through()
    }

    fn guest(&self) -> Option<&GuestBuffers> {
        self.guest_through()
    }
}
