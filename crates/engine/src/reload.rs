//! What a reload does, and tells of it: actions, each to one part of the switch.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that a reload does, or leaves as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// What it is done to.
    pub subject: Subject,
    /// Which one. Patches and mappings are named after their two ports, workers by their number.
    pub name: String,
    /// What is done.
    pub step: Step,
    /// What differs, if that is why; empty for what is kept, added or removed.
    pub why: Vec<String>,
    /// Why it could not be done; the port is down then, or not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Parts of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A port.
    Port,
    /// A wire between two ports.
    Patch,
    /// A bridge.
    Bridge,
    /// A mapping of a physical port to a guest.
    Mapping,
    /// Which packets are joined, for whom.
    Aggregation,
    /// A worker.
    Worker,
}

/// What is done to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It comes.
    Added,
    /// It goes.
    Removed,
    /// It ends and starts anew: a port's peers are disconnected, a mapping's buffers come back, a worker is another thread.
    Reopened,
    /// It changes while it runs; its peers do not notice.
    Changed,
    /// It is not touched.
    Kept,
}

impl Action {
    pub(crate) fn new(subject: Subject, name: impl Into<String>, step: Step, why: Vec<String>) -> Action {
        Action { subject, name: name.into(), step, why, error: None }
    }

    /// What is to be done to a part that there was before and is still wanted, as it differs in `why`.
    pub(crate) fn of_known(subject: Subject, name: impl Into<String>, why: Vec<String>) -> Action {
        Action::new(subject, name, if why.is_empty() { Step::Kept } else { Step::Changed }, why)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Port => "port",
            Subject::Patch => "patch",
            Subject::Bridge => "bridge",
            Subject::Mapping => "mapping",
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
impl fmt::Display for Action {
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
