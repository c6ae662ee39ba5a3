//! Errors of analyses.

use super::bench::MeasureError;
use super::{cache, parts, pattern, switch};
use crate::record::RecordError;
use crate::ring_format::RingFormat;
use loadgen::cpu::PinError;
use std::path::PathBuf;

/// Error of an analysis.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AnalyseError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Switch(#[from] switch::SwitchError),
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    #[error("{row}, {pattern}: {source}")]
    Measure { row: String, pattern: pattern::Pattern, source: MeasureError },
    #[error("{pattern}, {ring}, {size} B: {source}")]
    Turn { pattern: pattern::Pattern, ring: RingFormat, size: u16, source: parts::TurnError },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
