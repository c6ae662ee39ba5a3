//! Frames that came to their end: back at the wire, or at a network function that keeps them.

use crate::load::{Counts, Sequence};

/// Numbers of the frames that arrived, and whether they are those that were sent.
pub struct Arrivals {
    sequence: Sequence,
    /// Whether frames are compared with those sent.
    checked: bool,
}

impl Arrivals {
    /// Creates the record of frames that are compared with those sent if `checked`.
    pub fn new(checked: bool) -> Arrivals {
        Arrivals { sequence: Sequence::default(), checked }
    }

    /// Returns the next number: all earlier frames have arrived or were lost.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.sequence.next()
    }

    /// Counts a frame with this number, which is of the right length if it is `whole`, and has the right bytes if it is `intact`.
    #[inline(always)]
    pub fn note(&mut self, number: u64, whole: bool, intact: bool) {
        if self.checked {
            self.sequence.note(number, whole && intact);
        } else {
            self.sequence.note(self.sequence.next(), whole);
        }
    }

    /// Counts all frames before `number` that have not arrived as lost.
    pub fn give_up(&mut self, number: u64) {
        self.sequence.give_up(number);
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.sequence.counts()
    }
}
