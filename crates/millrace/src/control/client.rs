//! The client side of the control socket.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of an answer. A reload, which closes and opens ports, takes longest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No switch listens.
    #[error("no switch answers on {}: {source}; start one with `millrace run`, or name its socket with --socket", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the switch did not answer: {0}")]
    Io(#[from] io::Error),
    /// The switch answered with an error.
    #[error("the switch refused: {message}")]
    Refused {
        /// JSON-RPC error code.
        code: i64,
        /// The reason.
        message: String,
    },
    /// The answer is not that of a switch of this version.
    #[error("the answer is not one of a Millrace switch of this version: {0}")]
    Unintelligible(String),
}

/// A connection to a switch.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    last_id: u64,
}

impl Client {
    /// Connects to the control socket at `path`.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream =
            UnixStream::connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream), last_id: 0 })
    }

    /// Calls `method` and returns the raw result.
    pub fn call(&mut self, method: &str) -> Result<Value, ClientError> {
        self.call_with(method, json!({}))
    }

    /// Calls `method` with these parameters, an object, and returns the raw result.
    pub fn call_with(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut reply: Value =
            serde_json::from_str(&line).map_err(|error| ClientError::Unintelligible(error.to_string()))?;
        if let Some(error) = reply.get("error") {
            let message = error["message"].as_str().unwrap_or("no reason given").to_owned();
            return Err(ClientError::Refused { code: error["code"].as_i64().unwrap_or_default(), message });
        }
        if reply["id"] != self.last_id {
            return Err(ClientError::Unintelligible(format!("its id is {}, not {}", reply["id"], self.last_id)));
        }
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(ClientError::Unintelligible("it has neither result nor error".to_owned())),
        }
    }

    /// Calls `method` and reads its result as `T`.
    pub fn call_as<T: DeserializeOwned>(&mut self, method: &str) -> Result<T, ClientError> {
        serde_json::from_value(self.call(method)?).map_err(|error| ClientError::Unintelligible(error.to_string()))
    }
}
