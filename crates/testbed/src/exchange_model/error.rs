//! Errors of a model.

use crate::record::RecordError;
use loadgen::cpu::PinError;

/// Error of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("memory to measure with: {0}")]
    Memory(#[from] std::io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
}
