//! Idling of a worker between batches.

use crate::run::Idle;
use handover::{Parking, Spot};

/// Vain claims before a worker parks: to wake it costs more than a few of them.
const SPINS: u32 = 256;

/// See the module.
pub(super) struct Rest<'p> {
    spot: Spot<'p>,
    idle: Idle,
    vain: u32,
}

impl<'p> Rest<'p> {
    pub(super) fn new(parking: &'p Parking, idle: Idle) -> Rest<'p> {
        Rest { spot: Spot::new(parking), idle, vain: 0 }
    }

    /// Rests after a vain claim. The worker then claims again.
    #[inline]
    pub(super) fn pause(&mut self) {
        if self.idle.is_due(self.vain, SPINS) {
            self.spot.park();
        } else {
            self.vain = self.vain.saturating_add(1);
            std::hint::spin_loop();
        }
    }

    /// Ends the rest: there is a batch.
    #[inline]
    pub(super) fn end(&mut self) {
        self.vain = 0;
        self.spot.leave();
    }
}
