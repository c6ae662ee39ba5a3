//! Errors of the comparison.

use super::crew::CrewSubjectError;
use super::plan::Point;
use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of the comparison.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SharingError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Open(CrewSubjectError),
    #[error("{point}: {source}")]
    Measure { point: Point, source: CrewSubjectError },
    #[error(transparent)]
    Record(#[from] RecordError),
}
