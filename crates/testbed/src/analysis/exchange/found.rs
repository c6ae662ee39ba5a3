//! The results of the analysis.

use super::super::turns::Timed;
use super::setup::Setup;
use crate::latency::Latency;

/// Results of one setup: medians of all rounds, in cycles per frame of either way.
pub struct Figure {
    pub setup: Setup,
    /// Latency between the processors before.
    pub latency: Latency,
    /// Of copies, and of exchanges.
    pub ways: [Parts; 2],
}

/// The parts of one way.
pub struct Parts {
    pub function: Timed,
    pub switch: Timed,
}

impl Parts {
    /// Returns the cycles per frame of the slowest part, and its name.
    pub fn slowest(&self) -> (f64, &'static str) {
        let (function, switch) = (self.function.alone, self.switch.alone);
        if function > switch { (function, "function") } else { (switch, "switch") }
    }
}

impl Figure {
    /// Returns the rate with exchanges in relation to that with copies.
    pub fn ratio(&self) -> f64 {
        let [copied, exchanged] = &self.ways;
        copied.slowest().0 / exchanged.slowest().0
    }
}
