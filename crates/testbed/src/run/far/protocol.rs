//! Requests and answers between the two machines of a run.

use crate::machine::Machine;
use crate::run::apps::Traffic;
use crate::run::record::CpuUse;
use crate::scenario::Point;
use loadgen::app::AppReport;
use serde::{Deserialize, Serialize};

/// A request. After `Prepare`, each point is `Open`, any number of times `Start`, `Begin`, `End` and `Finish`, then `Close`; a
/// point can be closed at any time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Prepare for the runs of this scenario, with these switches or with all.
    Prepare {
        /// The scenario's file.
        scenario: String,
        /// Names.
        switches: Vec<String>,
    },
    /// Start the switch of a point.
    Open(Box<Point>),
    /// Start the applications, and wait until the switch's ports are up.
    Start(Traffic),
    /// The measured seconds begin.
    Begin,
    /// The measured seconds end.
    End,
    /// End the applications.
    Finish,
    /// End the switch.
    Close,
}

/// The answer to the request of the same name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To `Prepare`.
    Prepared {
        /// The machine.
        machine: Machine,
        /// Points that it can take part in.
        points: Vec<Point>,
        /// Reasons for which it can't take part in others.
        missing: Vec<String>,
    },
    /// To `Open`.
    Opened,
    /// To `Start`.
    Started,
    /// To `Begin`.
    Begun,
    /// To `End`: processor time of everything that took part there.
    Ended(Vec<CpuUse>),
    /// To `Finish`.
    Finished(Vec<AppReport>),
    /// To `Close`.
    Closed,
    /// To any request that failed, with the reason. The point is closed.
    Failed(String),
}
