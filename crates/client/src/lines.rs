//! Messages on a connection: one in each line.

use crate::ClientError;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: BufReader<UnixStream>,
    /// The beginning of a message whose end has not arrived.
    begun: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: UnixStream) -> Lines {
        Lines { stream: BufReader::new(stream), begun: Vec::new() }
    }

    /// Limits the time of each wait; `None` waits for as long as it takes.
    pub(crate) fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(time)?;
        stream.set_write_timeout(time)
    }

    pub(crate) fn send(&mut self, message: &Value) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("{message}\n").as_bytes())
    }

    /// Returns the next message. After a wait that took too long, it can be called again: nothing is lost.
    pub(crate) fn next(&mut self) -> Result<Value, ClientError> {
        self.stream.read_until(b'\n', &mut self.begun)?;
        if self.begun.last() != Some(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the switch has closed the connection").into());
        }
        let message = serde_json::from_slice(&self.begun);
        self.begun.clear();
        message.map_err(|error| ClientError::Unintelligible(error.to_string()))
    }
}
