//! A burst that flows forward.

use super::super::learning::{Arrival, LearningPlan};
use super::super::output::Output;
use super::super::vlan::part;
use packet::Judged;

/// Index for no port of the bridge.
pub(super) const NOWHERE: usize = usize::MAX;

/// A burst, and where it came from.
#[derive(Clone, Copy)]
pub(super) struct Received<'r> {
    pub(super) bridge: &'r LearningPlan,
    pub(super) arrival: Arrival<'r, 'r>,
    /// Its frames with their heads.
    pub(super) judged: Judged<'r>,
    /// Number of its port.
    pub(super) in_port: u32,
}

impl<'r> Received<'r> {
    /// Returns the port that it came from, as frames are sent there.
    pub(super) fn source(&self) -> Option<&'r Output> {
        (self.arrival.from != NOWHERE).then(|| self.bridge.output(&self.arrival, self.arrival.from))
    }

    /// Returns the length of a frame.
    pub(super) fn len(&self, frame: usize) -> u32 {
        self.arrival.frames.as_slice()[frame].len()
    }

    /// Copies bytes of a frame, from this offset on.
    pub(super) fn copy(&self, frame: usize, at: usize, into: &mut [u8]) {
        let mut copied = 0;
        for segment in part(self.judged.segments(frame), at as u32, u32::MAX) {
            copied += segment.copy_to(&mut into[copied..]);
        }
    }
}
