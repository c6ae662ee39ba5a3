//! Frames that were exchanged and copied between two ports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Reasons why a frame is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// It is shorter than the threshold.
    Short,
    /// It does not lie whole in one buffer, from the buffer's first byte on: it was sent so, or the switch rebuilt it, as a bridge
    /// does to change a tag or to send it to several ports.
    Changed,
    /// It passes stages on its way, which may read it later.
    Shared,
    /// Its buffer, or the posted one, is not the member's own to give; or, if pages are exchanged, both do not lie alike in their
    /// pages.
    Foreign,
    /// It comes from a port that is not in the exchange, or whose function did not join.
    Outside,
    /// Somebody holds one of its pages by its address.
    Held,
}

impl Copied {
    /// All reasons.
    pub const ALL: [Copied; 6] =
        [Copied::Short, Copied::Changed, Copied::Shared, Copied::Foreign, Copied::Outside, Copied::Held];

    /// Returns the name that users see.
    pub fn name(self) -> &'static str {
        match self {
            Copied::Short => "short",
            Copied::Changed => "changed",
            Copied::Shared => "shared",
            Copied::Foreign => "foreign",
            Copied::Outside => "outside",
            Copied::Held => "held",
        }
    }
}

/// Number of outcomes of a frame: exchanged, or copied for one of the reasons.
const OUTCOMES: usize = 1 + Copied::ALL.len();

/// The frames of one call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally([u32; OUTCOMES]);

impl Tally {
    /// Counts a frame that is exchanged.
    #[inline(always)]
    pub(crate) fn add_exchanged(&mut self) {
        self.0[0] += 1;
    }

    /// Counts frames that are copied.
    #[inline(always)]
    pub(crate) fn add_copied(&mut self, reason: Copied, frames: u32) {
        self.0[1 + reason as usize] += frames;
    }

    /// Returns the number of all frames.
    pub(crate) fn frames(&self) -> u32 {
        self.0.iter().sum()
    }

    /// Returns the number of exchanged frames.
    #[inline(always)]
    pub(crate) fn exchanged(&self) -> u32 {
        self.0[0]
    }
}

/// Counters of a pair of ports, which the workers that send there share.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counters([AtomicU64; OUTCOMES]);

impl Counters {
    #[inline(always)]
    pub(super) fn add(&self, tally: Tally) {
        for (sum, count) in self.0.iter().zip(tally.0).filter(|(_, count)| *count > 0) {
            sum.fetch_add(count.into(), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// Numbers of frames between two ports since the exchange was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; OUTCOMES]);

impl Counts {
    /// Returns the number of frames that were exchanged.
    pub fn exchanged(&self) -> u64 {
        self.0[0]
    }

    /// Returns the number of frames that were copied for this reason.
    pub fn copied(&self, reason: Copied) -> u64 {
        self.0[1 + reason as usize]
    }
}
