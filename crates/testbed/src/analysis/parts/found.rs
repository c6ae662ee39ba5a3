//! The results of the analysis.

use super::measure::Part;
use crate::analysis::setup::Setup;
use crate::analysis::turns::Timed;
use crate::latency::Latency;

/// Results of one setup: medians of all rounds, in cycles per frame.
pub struct Figure {
    pub setup: Setup,
    /// Latency between the processors before.
    pub latency: Latency,
    /// SW_R, NF and SW_T.
    pub parts: [(Part, Timed); 3],
    /// The network function without a switch, alone on a processor.
    pub without_switch: f64,
}

impl Figure {
    /// Returns the slowest part: it limits a pipeline in which each part has a processor.
    pub fn slowest(&self) -> &(Part, Timed) {
        self.parts.iter().max_by(|(_, a), (_, b)| a.alone.total_cmp(&b.alone)).expect("there are three parts")
    }
}
