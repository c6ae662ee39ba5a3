//! Errors of the measurement.

use super::line::Line;
use crate::millrace::MillraceError;
use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RedisError {
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
    #[error("redis-benchmark did not report its tests: {0}")]
    Report(String),
    #[error("line {0}: no frame was exchanged, so it is a measurement of copies")]
    NotExchanged(Line),
}
