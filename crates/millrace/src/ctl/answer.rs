//! Answers of a switch, and the errors of `ctl`.

use crate::control::ClientError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;

/// Error that keeps `ctl` from succeeding.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// The switch did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// The port was added or changed, but is not open.
    #[error("port {port} is not open: {why}")]
    NotOpen {
        /// The port.
        port: String,
        /// The reason.
        why: String,
    },
    /// The reload was answered, but some of its actions failed.
    #[error("the reload failed in {0} of its actions; the rest was done")]
    Reload(usize),
}

/// Reads an answer.
pub(super) fn read<T: DeserializeOwned>(result: Value) -> Result<T, ClientError> {
    serde_json::from_value(result).map_err(|error| ClientError::Unintelligible(error.to_string()))
}
