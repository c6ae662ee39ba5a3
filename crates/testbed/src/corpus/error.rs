//! Errors of replaying captures.

use crate::millrace::MillraceError;
use std::path::PathBuf;

/// Reason why a folder of captures was not replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CorpusError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("{} can't be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} has no capture with a frame{}", folder.display(), said(problem))]
    NoFrames { folder: PathBuf, problem: Option<String> },
    #[error(
        "the frames have all addresses of 198.51.100.0/24, or all VLANs; leave out the path `aggregation`, which needs some that none has"
    )]
    NothingFree,
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
}

/// Adds the problem of a file, if there is one.
fn said(problem: &Option<String>) -> String {
    problem.as_ref().map_or_else(String::new, |problem| format!("; {problem}"))
}

impl CorpusError {
    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, CorpusError::Lab(error) | CorpusError::Millrace(MillraceError::Lab(error)) if error.is_interrupt())
    }
}
