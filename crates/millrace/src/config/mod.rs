//! The configuration: the engine's specification of the switch and the settings around it. Plain values, all checked.
//!
//! [`Config::load`] reads a file into `raw` (the keys as written, with their places) and builds the configuration from it;
//! `check` collects the problems on the way. A [`Config`] needs no further checks except against the running machine (does the
//! interface exist?).

mod acceleration;
mod aggregation;
mod build;
mod changes;
mod check;
mod confinement;
mod control_socket;
mod directory;
mod dpdk;
mod exchanges;
mod files;
mod forwarding;
mod mappings;
mod mirrors;
mod openflow;
mod origin;
mod part;
mod ports;
pub mod raw;
mod reach;
mod reference;
mod sharing;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod vxlan;
mod workers;

pub use control_socket::default_control_socket;
pub use origin::Origin;
pub use part::{Document, Part};
pub use reach::{Grant, Purpose, Reach, ReachError};
pub use reference::{markdown, schema};
pub use settings::{Problem, Report, Severity};
pub use types::{Config, Confinement, Dpdk, Openflow};
pub use value::ListenAddress;

use std::path::{Path, PathBuf};

/// Error that keeps a configuration from loading.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has errors.
    #[error("{0}")]
    Invalid(Report),
}

impl Config {
    /// Reads and checks the file at `path`. The report returned with the configuration holds its warnings.
    pub fn load(path: &Path) -> Result<(Self, Report), LoadError> {
        Self::load_within(path, None).map(|(config, _, report)| (config, report))
    }

    /// Does the same for a running switch: a path beyond its `reach` is also an error. Also returns the sections of the file.
    pub fn load_within(path: &Path, reach: Option<&Reach>) -> Result<(Self, Document, Report), LoadError> {
        let (config, file, report) = build::build(path, &read(path)?, reach, false).map_err(LoadError::Invalid)?;
        Ok((config, Document { path: path.to_owned(), file }, report))
    }

    /// Does the same without a switch, and also reads the files that are to be replayed, which may take long.
    pub fn examine(path: &Path) -> Result<(Self, Report), LoadError> {
        let (config, _, report) = build::build(path, &read(path)?, None, true).map_err(LoadError::Invalid)?;
        Ok((config, report))
    }

    /// Checks `text` as if it had been read from `path`.
    pub fn parse(path: &Path, text: &str) -> Result<(Self, Report), Report> {
        build::build(path, text, None, false).map(|(config, _, report)| (config, report))
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    settings::read_text(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}
