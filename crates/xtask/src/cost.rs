//! Time and processors that a step or a program takes.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Cost of a step or a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    seconds: f64,
    /// Processors that it keeps busy.
    processors: f64,
}

impl Cost {
    /// Returns a cost of `time`, and of this time of processors.
    pub fn new(time: Duration, processor_time: Duration) -> Cost {
        let processors = processor_time.as_secs_f64() / time.as_secs_f64().max(0.001);
        Cost { seconds: (time.as_secs_f64() * 10.0).round() / 10.0, processors: (processors * 100.0).round() / 100.0 }
    }

    pub fn time(self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub fn processor_time(self) -> Duration {
        self.time().mul_f64(self.processors)
    }

    pub fn processors(self) -> f64 {
        self.processors
    }

    /// Returns the cost after it was `earlier`. On a busy machine a program gets less of the processors than it would take, so that
    /// the most counts.
    pub fn after(self, earlier: Cost) -> Cost {
        Cost { processors: self.processors.max(earlier.processors), ..self }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>6}  {:>4.1}", clock(self.time()), self.processors)
    }
}

/// Formats minutes and seconds.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
