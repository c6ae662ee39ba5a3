//! A queue whose frames are steered: some go to the socket, which fills a guest's buffers, the others to the kernel.
//!
//! The kernel cannot fill different memory for different frames of a queue, as its sockets share one fill ring. So
//! frames that are not for the guest pass on to the kernel's network stack, and a packet socket receives them there.
//! They never lie in the guest's memory, but cost more and arrive a little later.

use super::XdpReceive;
use crate::port::af_packet::PacketReceive;
use crate::port::zero_copy::{GuestBuffers, Mapped, Mix, Timing, ZeroCopyRx};
use crate::port::{HoldBursts, LifeCycle, RxQueue, Wait};
use packet::Burst;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Frames from an interface, by two sockets.
pub struct Steered {
    own: XdpReceive,
    passed: PacketReceive,
    /// The one of the two that is polled first, in turn, so that neither starves the other.
    passed_first: Cell<bool>,
    mapped: Option<Arc<Mapped>>,
}

impl Steered {
    /// Returns a half that takes frames for the guest from `own`, and all others from `passed`.
    pub fn new(own: XdpReceive, passed: PacketReceive, mapped: Option<Arc<Mapped>>) -> Steered {
        Steered { own, passed, passed_first: Cell::new(false), mapped }
    }

    /// Takes a burst from both sockets, by `own` from the first.
    #[inline(always)]
    fn both<'q>(&'q self, burst: &mut Burst<'_, 'q>, own: impl FnOnce(&mut Burst<'_, 'q>) -> bool) -> bool {
        if self.passed_first.replace(!self.passed_first.get()) {
            let any = self.pass(burst);
            own(burst) || any
        } else {
            let any = own(burst);
            self.pass(burst) || any
        }
    }

    #[inline(always)]
    fn pass<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let before = burst.len();
        let any = self.passed.receive(burst);
        if let Some(mapped) = &self.mapped {
            mapped.copied.add((burst.len() - before) as u64);
        }
        any
    }
}

/// Interval at which a worker that sleeps looks for frames that were passed to the kernel.
const POLL: Duration = Duration::from_millis(1);

impl RxQueue for Steered {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        self.both(burst, |burst| self.own.receive(burst))
    }

    fn recycle(&self) {
        self.own.recycle();
        self.passed.recycle();
    }

    fn notify(&self) {
        self.own.notify();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        // The packet socket is polled by time.
        self.own.wake_fd()
    }

    fn arm(&self) -> Wait {
        match (self.own.arm(), self.passed.arm().or_after(Some(POLL))) {
            (Wait::Ready, _) | (_, Wait::Ready) => Wait::Ready,
            (Wait::Time(own), Wait::Time(passed)) => Wait::Time(own.min(passed)),
            (Wait::Event, other) | (other, Wait::Event) => other,
        }
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        self.own.life_cycle()
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyRx> {
        self.own.zero_copy().map(|_| self as &dyn ZeroCopyRx)
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        // Frames of the packet socket lie in none of its memories.
        self.own.holds()
    }
}

impl ZeroCopyRx for Steered {
    fn receive_into<'q>(&'q self, guest: &'q GuestBuffers, burst: &mut Burst<'_, 'q>) -> bool {
        self.both(burst, |burst| self.own.receive_into(guest, burst))
    }

    fn relend(&self, guest: &GuestBuffers) -> bool {
        self.passed.recycle();
        self.own.relend(guest)
    }

    fn timing(&self) -> Option<&Timing> {
        self.own.timing()
    }

    fn adapt(&self, mix: Mix) {
        self.own.adapt(mix);
    }

    fn recall(&self, guest: &GuestBuffers) -> u64 {
        self.own.recall(guest)
    }
}
