//! Errors of the switch as a whole.

use super::open::{OpenError, lines};
use crate::forward::mac_table::TooManyStatics;

/// Reason why the switch cannot start or reload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ports could not be opened.
    #[error("{}", lines(.0).join("\n"))]
    Open(Vec<OpenError>),
    /// A worker could not be started.
    #[error("cannot start a worker: {0}")]
    Worker(std::io::Error),
    /// A worker hangs, so that nothing it uses can be changed.
    #[error("worker {worker} does not respond: it is at {place}; nothing was changed, see `millrace ctl workers`")]
    Unresponsive {
        /// Its index.
        worker: usize,
        /// Its place.
        place: String,
    },
    /// A bridge has more static addresses than it has room for.
    #[error("bridge \"{0}\": {1}")]
    Statics(String, TooManyStatics),
}
