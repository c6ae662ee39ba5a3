//! Actions of a reload, each on one part of the switch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One action of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadAction {
    /// Kind of part.
    pub subject: Subject,
    /// Name of the part: patches, mappings, exchanges and mirrors are named after their ports, workers by number.
    pub name: String,
    /// Step taken.
    pub step: Step,
    /// Differences that caused the step; empty for parts that are kept, added or removed.
    pub why: Vec<String>,
    /// Reason for a failure, after which the port is down, not recorded, or being opened again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Parts of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A port.
    Port,
    /// A patch between two ports.
    Patch,
    /// A bridge.
    Bridge,
    /// A mapping of a physical port to a guest.
    Mapping,
    /// A group of ports whose functions exchange buffers.
    Exchange,
    /// A mirror of ports' frames.
    Mirror,
    /// Packet aggregation.
    Aggregation,
    /// A worker.
    Worker,
}

/// A step taken on a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It is added.
    Added,
    /// It is removed.
    Removed,
    /// It ends and starts again: a port's peers are disconnected, a mapping's buffers are returned, a worker gets a new thread.
    Reopened,
    /// It changes while it runs, and its peers stay connected.
    Changed,
    /// It is not touched.
    Kept,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Port => "port",
            Subject::Patch => "patch",
            Subject::Bridge => "bridge",
            Subject::Mapping => "mapping",
            Subject::Exchange => "exchange",
            Subject::Mirror => "mirror",
            Subject::Aggregation => "aggregation",
            Subject::Worker => "worker",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Added => "added",
            Step::Removed => "removed",
            Step::Reopened => "reopened",
            Step::Changed => "changed",
            Step::Kept => "kept",
        })
    }
}

/// One line: `changed bridge br (ports)`.
impl fmt::Display for ReloadAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.step, self.subject)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if !self.why.is_empty() {
            write!(f, " ({})", self.why.join(", "))?;
        }
        self.error.iter().try_for_each(|error| write!(f, ", which FAILED: {error}"))
    }
}
