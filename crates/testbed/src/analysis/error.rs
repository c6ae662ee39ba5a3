//! Errors of analyses.

use super::bench::MeasureError;
use super::{cache, exchange, parts, pattern, sharing, switch};
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
    #[error(transparent)]
    Parts(#[from] parts::PartsError),
    #[error(transparent)]
    Exchange(#[from] exchange::ExchangePartsError),
    #[error(transparent)]
    Sharing(#[from] sharing::SharingError),
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
