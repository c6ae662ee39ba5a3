//! What a step or a program takes: time, and processors.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a step or a program takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    seconds: f64,
    processor_seconds: f64,
}

impl Cost {
    /// Returns the cost of what took `time`, and so much time of processors.
    pub fn new(time: Duration, processor_time: Duration) -> Cost {
        let tenths = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
        Cost { seconds: tenths(time), processor_seconds: tenths(processor_time) }
    }

    pub fn time(self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub fn processor_time(self) -> Duration {
        Duration::from_secs_f64(self.processor_seconds)
    }

    /// Returns the number of processors that it keeps busy.
    pub fn processors(self) -> f64 {
        self.processor_seconds / self.seconds.max(0.1)
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>6}  {:>4.1}", clock(self.time()), self.processors())
    }
}

/// Formats minutes and seconds.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
