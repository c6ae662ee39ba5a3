//! Figures of a measurement.

use serde::{Deserialize, Serialize};

/// A row of a table; lists have a value for each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "measured", rename_all = "lowercase")]
pub enum Figure {
    /// Calls, one after the other.
    Calls(Calls),
    /// Ports with a guest each.
    Guests(Guests),
    /// Rounds of the thread that forwards.
    Rounds(Rounds),
}

/// Times of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    pub by: String,
    pub ports: u32,
    pub add_p50_ms: Vec<f64>,
    pub add_p99_ms: Vec<f64>,
    pub del_p50_ms: Vec<f64>,
    pub del_p99_ms: Vec<f64>,
    /// Medians of the first tenth of all added ports, of the second, and so on, over all rounds.
    pub add_by_tenth_ms: Vec<f64>,
    /// Frames that the pair of guests received meanwhile, and those that it lost.
    pub frames: Vec<u64>,
    pub lost: Vec<u64>,
}

/// Start and memory of a switch with a guest at each port. Memory is what the switch has for itself: not the guests', but with huge
/// pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guests {
    pub switch: String,
    pub guests: u32,
    pub start_ms: Vec<f64>,
    /// With two ports only.
    pub two_mib: Vec<f64>,
    pub started_mib: Vec<f64>,
    pub connected_mib: Vec<f64>,
}

/// Rounds beside idle ports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rounds {
    pub switch: String,
    pub ports: u32,
    /// Length of a round without them.
    pub alone_ns: Vec<f64>,
    /// By which each makes it longer: while no guest is connected, and with a guest that sends nothing.
    pub down_ns: Vec<f64>,
    pub silent_ns: Vec<f64>,
}
