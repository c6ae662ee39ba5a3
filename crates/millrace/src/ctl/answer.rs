//! Answers of a switch, and the errors of `ctl`.

use api::request::Request;
use client::{Client, ClientError};
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
    /// The reload was answered, but some of its actions failed.
    #[error("the reload failed in {0} of its actions; the rest was done")]
    Reload(usize),
}

/// Does a call, and returns what to print: the result as the switch wrote it, or a text made of it.
pub(super) fn show<R: Request>(
    client: &mut Client,
    request: &R,
    json: bool,
    text: impl FnOnce(R::Answer) -> String,
) -> Result<String, ClientError> {
    if json { Ok(client.ask(request)?.to_string()) } else { client.call(request).map(text) }
}
