//! Errors of the analysis.

use crate::analysis::pattern::Pattern;
use crate::analysis::turns::TurnError;
use crate::record::RecordError;
use crate::ring_format::RingFormat;
use loadgen::cpu::PinError;

/// Error of the analysis.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PartsError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("{pattern}, {ring}, {size} B: {source}")]
    Turn { pattern: Pattern, ring: RingFormat, size: u16, source: TurnError },
    #[error(transparent)]
    Record(#[from] RecordError),
}
