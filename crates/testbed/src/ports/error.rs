//! Errors of a measurement.

use crate::millrace::MillraceError;
use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PortsError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("making a temporary directory: {0}")]
    Directory(std::io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
}
