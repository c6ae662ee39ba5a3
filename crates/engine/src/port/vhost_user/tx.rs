//! Transmission to a guest: its receive queue.

use super::common::{Call, Common};
use crate::drops::{Drops, Reason};
use crate::port::zero_copy::GuestBuffers;
use crate::port::{LifeCycle, Sent, SessionFault, TxQueue};
use packet::offload::Offloads;
use packet::{BurstStorage, Frames, Judged};
use std::sync::Arc;
use virtqueue::Fatal;
use virtqueue::device::{Delivered, Enqueue};

/// Length of a usual segment.
const SEGMENT: u32 = 1514;

/// A guest's receive queue.
pub struct VhostTransmit {
    guest: GuestBuffers,
    common: Common,
}

impl VhostTransmit {
    /// Returns a half that puts frames into `ring`.
    pub fn new(ring: Enqueue, call: Call, fault: Arc<SessionFault>, drops: Arc<Drops>) -> Self {
        ring.set_kicks(false);
        VhostTransmit { guest: GuestBuffers::new(ring, fault.clone()), common: Common::new(call, fault, drops) }
    }
}

impl VhostTransmit {
    /// Delivers frames by `transmit`.
    #[inline(always)]
    fn deliver(&self, transmit: impl FnOnce(&Enqueue) -> Result<Delivered, Fatal>) -> Sent {
        if !self.common.may_continue(self.guest.ring().memory()) {
            return Sent::none(Reason::Down);
        }
        match transmit(self.guest.ring()) {
            Ok(done) => {
                if self.guest.ring().dropped() != self.common.counted.get() {
                    self.common.count_dropped(self.guest.ring().dropped());
                }
                if done.over_budget > 0 {
                    self.common.drops.add(Reason::Budget, done.over_budget.into());
                }
                Sent {
                    frames: done.frames,
                    bytes: done.bytes,
                    too_long: done.too_long,
                    counted: done.over_budget,
                    rest: Some(Reason::NoBuffers),
                    ..Sent::default()
                }
            }
            Err(fatal) => {
                self.common.fault.raise(fatal);
                Sent::none(Reason::Down)
            }
        }
    }
}

impl TxQueue for VhostTransmit {
    #[inline]
    fn guest(&self) -> Option<&GuestBuffers> {
        (!self.common.fault.is_raised()).then_some(&self.guest)
    }

    #[inline]
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.deliver(|ring| ring.transmit(frames))
    }

    #[inline]
    fn transmit_judged(&self, judged: Judged<'_>, _: &mut BurstStorage) -> Sent {
        self.deliver(|ring| ring.transmit_judged(judged))
    }

    #[inline]
    fn takes(&self) -> Offloads {
        self.guest.ring().takes()
    }

    /// A quarter of the ring, if each buffer takes a usual frame: a message for which there are never enough buffers would be lost again and
    /// again.
    fn longest_merged(&self) -> u32 {
        u32::from(self.guest.ring().size() / 4) * SEGMENT
    }

    #[inline]
    fn exchanges(&self) -> bool {
        self.guest.ring().exchanges()
    }

    #[inline]
    fn notify(&self) {
        if self.guest.ring().wants_notification() {
            self.common.notify();
        }
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl LifeCycle for VhostTransmit {
    fn base(&self) -> Option<u32> {
        Some(self.guest.ring().base())
    }
}
