//! The record of one run, a line of `runs.jsonl`.

use crate::latency::Latency as Distance;
use crate::scenario::Point;
use crate::search::Searched;
use loadgen::app::AppReport;
use serde::{Deserialize, Serialize};

/// One run of one point, or the search for its rates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// The point.
    pub point: Point,
    /// Number of the round, from 0: in a round each switch has its turn.
    pub round: u32,
    /// Date and time of its start, UTC.
    pub started: String,
    /// Time that a cache line takes from one processor to the other, before the run and after it.
    pub distance: [Distance; 2],
    /// Placement of the applications.
    pub placement: AppPlacement,
    /// Rate of each sender, in packets per second, if it was not the greatest possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Reports of all applications; empty for a search.
    pub reports: Vec<AppReport>,
    /// Processor time of everything that took part.
    pub cpu: Vec<CpuUse>,
    /// The switch.
    pub switch: SwitchUse,
    /// Results of a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searched>,
    /// Reason why there are no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Placement of the applications on processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppPlacement {
    /// Each end of each pair is a process of its own, on a processor of its own.
    Separate,
    /// Each end of each pair is a process of its own, and several share a processor.
    Crowded,
    /// All ends are in one thread of one process.
    Joined,
}

/// Processor time that one process or kernel thread used in the measured seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Its name: `switch`, `sender 0`, `ksoftirqd/1`.
    pub name: String,
    /// Seconds of a processor for each second.
    pub share: f64,
}

/// The switch of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchUse {
    /// Its version.
    pub version: String,
    /// Whether it forwards by learned addresses, and not between ports 0 and 1, 2 and 3, and so on.
    pub learns: bool,
    /// The command lines that started it and set it up.
    pub commands: Vec<String>,
    /// Cycles per frame that it counted itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
}
