//! Whether frames that could stay in place had better be copied, which the bursts of a mapped queue tell ([`trials`]).

use super::{Direction, Mapped};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use trials::Measured;

/// The bursts of one direction of a mapped queue, which are timed during trials. Its worker begins and ends each of them.
pub struct Timing {
    mapped: Arc<Mapped>,
    direction: Direction,
    /// `None` if the configuration sets the length.
    measured: Option<Measured>,
    /// Frames in place before the present burst.
    before: Cell<u64>,
}

impl Timing {
    pub(in crate::port) fn new(mapped: Arc<Mapped>, direction: Direction) -> Timing {
        let measured = mapped.trials().map(|trials| Measured::new(trials.in_direction(direction).clone()));
        Timing { mapped, direction, measured, before: Cell::new(0) }
    }

    /// Begins a burst, and returns the time if it counts.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Option<Instant> {
        let began = self.measured.as_ref()?.begin()?;
        self.before.set(self.mapped.in_place_in(self.direction));
        Some(began)
    }

    /// Ends a burst of `frames` frames with `bytes` bytes together, which began then.
    #[inline(always)]
    pub(crate) fn end(&self, frames: usize, bytes: u64, began: Option<Instant>) {
        let Some(measured) = &self.measured else { return };
        if frames == 0 {
            return;
        }
        measured.received(frames, bytes, began);
        let in_place = if began.is_some() { self.mapped.in_place_in(self.direction) - self.before.get() } else { 0 };
        measured.end(in_place as u32);
        if self.direction == Direction::ToGuest {
            // The length of the next frames is not known when buffers are lent for them.
            self.mapped.set_copies(bytes < u64::from(self.mapped.threshold(self.direction)) * frames as u64);
        }
    }
}
