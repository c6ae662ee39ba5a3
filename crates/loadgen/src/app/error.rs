//! Errors of applications.

use super::GO;
use crate::cpu::PinError;
use crate::endpoint::EndpointError;

/// Error that ends an application.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum AppError {
    #[error("{ports} ports are not whole pairs: give two ports for each")]
    Odd { ports: usize },
    #[error(
        "endpoints are numbered from 0 to 253, and those of pairs begin with an even number: choose another --number"
    )]
    Number,
    #[error("{0}")]
    Unavailable(String),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("standard input ended, or asked for the end, before it said \"{GO}\"")]
    NotBegun,
    #[error(
        "no packet came through to {silent} of the ports within {seconds} seconds: does the switch forward between the ports, and \
         does a server run?"
    )]
    Nothing { silent: usize, seconds: f64 },
}
