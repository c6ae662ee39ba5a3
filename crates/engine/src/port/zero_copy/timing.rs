//! Whether frames that could stay in place had better be copied, which the bursts of a mapped queue tell ([`trials`]).

use super::direction::Direction;
use super::mapped::Mapped;
use crate::counters;
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
    /// Frames of the last bursts, and their bytes.
    recent: Cell<[u64; 2]>,
}

/// Bursts after which their frames and bytes are nearly forgotten: bursts of different means are not to change the way each time.
const MEMORY: u64 = 16;

impl Timing {
    pub(in crate::port) fn new(mapped: Arc<Mapped>, direction: Direction) -> Timing {
        let measured = mapped.trials().map(|trials| Measured::new(trials.in_direction(direction).clone()));
        Timing { mapped, direction, measured, recent: Cell::new([0; 2]) }
    }

    /// Begins a burst of the queue whose received frames are counted there.
    #[inline(always)]
    pub(crate) fn begin(&self, received: &counters::Direction) -> Begun {
        let at = self.measured.as_ref().and_then(Measured::begin);
        let in_place = if at.is_some() { self.mapped.in_place_in(self.direction) } else { 0 };
        Begun { at, packets: received.packets.get(), bytes: received.bytes.get(), in_place }
    }

    /// Ends a burst.
    #[inline(always)]
    pub(crate) fn end(&self, received: &counters::Direction, begun: Begun) {
        let frames = received.packets.get() - begun.packets;
        if frames == 0 {
            return;
        }
        let bytes = received.bytes.get() - begun.bytes;
        if let Some(measured) = &self.measured {
            measured.received(frames as usize, bytes, begun.at);
            let in_place =
                if begun.at.is_some() { self.mapped.in_place_in(self.direction) - begun.in_place } else { 0 };
            measured.end(in_place as u32);
        }
        if self.direction == Direction::ToGuest {
            // The length of the next frames is not known when buffers are lent for them.
            let [recent_frames, recent_bytes] = self.recent.get();
            let frames = recent_frames - recent_frames / MEMORY + frames;
            let bytes = recent_bytes - recent_bytes / MEMORY + bytes;
            self.recent.set([frames, bytes]);
            self.mapped.set_copies(bytes < u64::from(self.mapped.threshold(self.direction)) * frames);
        }
    }
}

/// A burst that has begun.
pub(crate) struct Begun {
    /// The time, if it counts.
    at: Option<Instant>,
    /// Frames received before it, their bytes, and those in place.
    packets: u64,
    bytes: u64,
    in_place: u64,
}
