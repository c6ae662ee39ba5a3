//! Errors of simulations.

use crate::record::RecordError;
use std::path::PathBuf;

/// Error of a simulation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SimulateError {
    #[error("there is no {}; run this from the root of Millrace's sources, or name their directory `sim` by --sources", .0.display())]
    Sources(PathBuf),
    #[error("{program} can't be started: {source}; install the Debian package {package}")]
    Tool { program: &'static str, package: &'static str, source: std::io::Error },
    #[error("ns-3 is missing; install the Debian package libns3-dev")]
    Ns3,
    #[error("the simulator does not build: {0}")]
    Build(String),
    #[error("the simulator's directory can't be locked: {0}")]
    Lock(std::io::Error),
    #[error("the simulator can't be run: {0}")]
    Run(std::io::Error),
    #[error("the simulator failed at {case}: {said}")]
    Failed { case: String, said: String },
    #[error("the simulator's counts can't be read: {0}")]
    Counts(serde_json::Error),
    #[error("{case}: {sent} packets were sent, but {delivered} arrived and {lost} were lost")]
    Conservation { case: String, sent: u64, delivered: u64, lost: u64 },
    #[error(transparent)]
    Record(#[from] RecordError),
}
