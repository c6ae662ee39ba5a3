//! Errors of calls.

use api::code::Code;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Error of a call.
#[derive(Debug)]
pub enum ClientError {
    /// No switch listens.
    Connect {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The connection broke, or the switch did not answer in time.
    Io(io::Error),
    /// The switch answered with an error.
    Refused {
        /// JSON-RPC error code; see [`ClientError::code`].
        code: i64,
        /// The reason.
        message: String,
    },
    /// The answer is not that of a switch of this version.
    Unintelligible(String),
    /// A port did not open in time.
    NotOpen {
        /// The port.
        port: String,
        /// The reason.
        why: String,
    },
}

impl ClientError {
    /// Returns the reason of a refusal, if it has a code of Millrace's.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused { code, .. } => Code::of(*code),
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connect { path, source } => write!(
                f,
                "no switch answers on {}: {source}; start one with `millrace run`, or name its socket (--socket of `millrace ctl`)",
                path.display()
            ),
            ClientError::Io(error) => write!(f, "the switch did not answer: {error}"),
            ClientError::Refused { message, .. } => write!(f, "the switch refused: {message}"),
            ClientError::Unintelligible(why) => {
                write!(f, "the answer is not one of a Millrace switch of this version: {why}")
            }
            ClientError::NotOpen { port, why } => write!(f, "port {port} is not open: {why}"),
        }
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ClientError::Connect { source, .. } | ClientError::Io(source) => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Io(error)
    }
}
