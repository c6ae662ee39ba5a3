//! Figures of a measurement.

use super::options::Changes;
use serde::{Deserialize, Serialize};

/// One program under one kind of change: a figure for each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    pub changes: Changes,
    pub ports: u32,
    pub program: Program,
    /// Time from the start of the program until it answers.
    pub start_ms: Vec<f64>,
    /// Longest time between two frames.
    pub gap_ms: Vec<f64>,
    /// Median time of a reload.
    pub reload_ms: Vec<f64>,
}

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    New,
    Against,
}
