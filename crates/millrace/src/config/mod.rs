//! The configuration: the engine's specification of the switch and the settings around it. Plain values, all checked.
//!
//! [`Config::load`] reads a file into `raw` (the keys as written, with their places) and builds the configuration from it;
//! `check` collects the problems on the way. A [`Config`] needs no further checks except against the running machine (does the
//! interface exist?).

mod aggregation;
mod build;
mod changes;
mod check;
mod confinement;
mod forwarding;
mod mappings;
mod mirrors;
mod openflow;
mod ports;
mod raw;
mod reach;
mod reference;
#[cfg(test)]
mod tests;
mod value;
mod vxlan;
mod workers;

pub use confinement::Confinement;
pub use reach::{Grant, Purpose, Reach, ReachError};
pub use reference::{markdown, schema};
pub use settings::{Problem, Report, Severity};
pub use value::ListenAddress;

use engine::spec::Spec;
use std::path::{Path, PathBuf};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The switch.
    pub spec: Spec,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Address of the metrics endpoint, if any.
    pub metrics: Option<ListenAddress>,
    /// OpenFlow settings, if any.
    pub openflow: Option<Openflow>,
    /// Confinement settings.
    pub confinement: Confinement,
}

/// The OpenFlow channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openflow {
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// Controllers to connect to. At least one of the two lists is not empty.
    pub controllers: Vec<ListenAddress>,
    /// Its datapath id.
    pub datapath_id: u64,
}

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
        Self::load_within(path, None)
    }

    /// Does the same for a running switch: a path beyond its `reach` is also an error.
    pub fn load_within(path: &Path, reach: Option<&Reach>) -> Result<(Self, Report), LoadError> {
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        build::build(path, &text, reach).map_err(LoadError::Invalid)
    }

    /// Checks `text` as if it had been read from `path`.
    pub fn parse(path: &Path, text: &str) -> Result<(Self, Report), Report> {
        build::build(path, text, None)
    }
}

/// Returns the default path of the control socket: see the `control` section of the reference. `beside` is the directory of the
/// configuration file.
pub fn default_control_socket(beside: &Path) -> PathBuf {
    const NAME: &str = "millrace.sock";
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        return PathBuf::from(runtime).join(NAME);
    }
    let run = Path::new("/run");
    if rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
        return run.join(NAME);
    }
    beside.join(NAME)
}
