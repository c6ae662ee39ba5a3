//! Errors of a measurement.

use crate::millrace::MillraceError;
use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReloadError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("the capture of the switch can't be read: {0}")]
    Capture(#[from] capture::Error),
    #[error("{action}: {source}")]
    System { action: &'static str, source: std::io::Error },
    #[error("the watched port has too few frames: {0}")]
    Silent(usize),
    #[error(transparent)]
    Record(#[from] RecordError),
}
