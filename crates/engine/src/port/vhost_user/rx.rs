//! Reception from a guest: its transmit queue.

use super::common::{Call, Common};
use crate::drops::Drops;
use crate::port::zero_copy::KeepChains;
use crate::port::{HoldBursts, LifeCycle, RxQueue, SessionFault, Wait};
use packet::{Burst, MappedMemory};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use vhost_user::Event;
use virtqueue::device::Dequeue;
use virtqueue::ordering;

/// A guest's transmit queue.
pub struct VhostReceive {
    ring: Dequeue,
    kick: Option<Event>,
    common: Common,
}

impl VhostReceive {
    /// Returns a half that takes frames from `ring`; `kick` is readable when the guest was asked to kick and did.
    pub fn new(ring: Dequeue, kick: Option<Event>, call: Call, fault: Arc<SessionFault>, drops: Arc<Drops>) -> Self {
        ring.set_kicks(false);
        VhostReceive { ring, kick, common: Common::new(call, fault, drops) }
    }
}

impl RxQueue for VhostReceive {
    #[inline]
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        if !self.common.may_continue(self.ring.memory()) {
            return false;
        }
        let first = burst.len();
        match self.ring.receive(burst) {
            Ok(taken) => {
                self.ring.read_headers(burst, first);
                if taken != burst.len() {
                    self.common.count_dropped(self.ring.dropped());
                }
                if self.ring.cut_short() != self.common.cut_short.get() {
                    self.common.count_cut_short(self.ring.cut_short());
                }
                taken > 0
            }
            Err(fatal) => {
                self.common.fault.raise(fatal);
                burst.retain(|_, _| false);
                false
            }
        }
    }

    #[inline]
    fn recycle(&self) {
        self.ring.recycle();
    }

    #[inline]
    fn notify(&self) {
        if self.ring.wants_notification() {
            self.common.notify();
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(AsFd::as_fd)
    }

    fn arm(&self) -> Wait {
        if self.common.fault.is_raised() {
            return Wait::Event;
        }
        self.ring.set_kicks(true);
        ordering::before_asking();
        if self.ring.has_work() {
            return Wait::Ready;
        }
        // A driver without a kick descriptor has to be polled, however rarely.
        if self.kick.is_some() { Wait::Event } else { Wait::Time(Duration::from_micros(50)) }
    }

    fn disarm(&self) {
        self.ring.set_kicks(false);
    }

    #[inline]
    fn chains(&self) -> Option<&dyn KeepChains> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl HoldBursts for VhostReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        vec![self.ring.memory().clone()]
    }

    fn buffers(&self) -> usize {
        self.ring.size().into()
    }

    #[inline]
    fn hold(&self, held: &mut Vec<u16>) {
        self.ring.hold(held);
    }

    #[inline]
    fn give_back(&self, held: &[u16]) {
        self.ring.give_back(held);
    }
}

impl KeepChains for VhostReceive {
    #[inline]
    fn keep(&self, places: u32) {
        self.ring.keep(places);
    }

    #[inline]
    fn ring(&self) -> Option<&Dequeue> {
        self.common.may_continue(self.ring.memory()).then_some(&self.ring)
    }

    #[inline]
    fn release(&self, ids: &[u16]) {
        self.ring.release(ids.iter().copied());
    }
}

impl LifeCycle for VhostReceive {
    fn rewire(&mut self, kick: Option<Event>) {
        self.kick = kick;
    }

    fn share(&mut self, is_shared: bool) {
        self.ring.set_holding(is_shared);
    }

    fn base(&self) -> Option<u32> {
        Some(self.ring.base())
    }
}
