//! Errors that keep a crew from starting, or end it.

use crate::run::RunError;

/// The reason why a crew failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum CrewError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("a crew of {workers} workers: 1 to {max} are possible")]
    Workers { workers: u16, max: u16 },
    #[error("processors: {given} given, {needed} needed: {who}")]
    Processors { given: usize, needed: usize, who: &'static str },
    #[error("a parent can work only with the sharing static-role: the others have no parent")]
    NoParent,
    #[error(
        "the ports were opened for {opened} workers, and the crew needs them opened for {needed}: pass their options \
         through CrewOptions::adapt"
    )]
    Ports { opened: u16, needed: u16 },
    #[error("can't run on processor {cpu}: {source}; is it online, and allowed by taskset or cgroup?")]
    Pin { cpu: usize, source: std::io::Error },
    #[error("can't start worker {number}: {source}")]
    Spawn { number: usize, source: std::io::Error },
    #[error("worker {number} panicked: {message}")]
    Panicked { number: usize, message: String },
}
