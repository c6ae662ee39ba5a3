//! The results of the analysis.

use super::measure::Part;
use crate::analysis::setup::Setup;
use crate::latency::Latency;
use crate::machine::Machine;
use crate::transfer::Transfer;

/// All results.
pub struct Found {
    pub rig: Machine,
    pub line_cycles: Transfer,
    pub figures: Vec<Figure>,
}

/// Results of one setup: medians of all rounds, in cycles per frame.
pub struct Figure {
    pub setup: Setup,
    /// Latency between the processors before.
    pub latency: Latency,
    /// SW_R, NF and SW_T.
    pub parts: [Timed; 3],
    /// The network function without a switch, alone on a processor.
    pub without_switch: f64,
}

/// Cycles per frame of one part.
pub struct Timed {
    pub part: Part,
    /// Alone on a processor.
    pub alone: f64,
    /// On one processor with all others.
    pub together: f64,
}

impl Timed {
    /// Returns the approximate number of cache lines per frame that come from another processor.
    pub fn lines(&self, cost: &Transfer) -> f64 {
        ((self.alone - self.together) / ((cost.read + cost.write) / 2.0)).max(0.0)
    }
}

impl Figure {
    /// Returns the slowest part: it limits a pipeline in which each part has a processor.
    pub fn slowest(&self) -> &Timed {
        self.parts.iter().max_by(|a, b| a.alone.total_cmp(&b.alone)).expect("there are three parts")
    }
}
