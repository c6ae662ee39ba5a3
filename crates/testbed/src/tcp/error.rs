//! Errors of the measurement.

use crate::millrace::MillraceError;
use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TcpError {
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
    #[error("/proc/stat can't be read: {0}")]
    Processors(std::io::Error),
    #[error("iperf3 did not report the stream: {0}")]
    Report(String),
}
