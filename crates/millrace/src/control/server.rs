//! The server side of the control socket.

use super::{Handler, LONGEST_LINE, rpc};
use crate::config::ListenAddress;
use crate::serve::{Connection, ListenError, Listener, Stop, serve};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limits on a client's use of the switch.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Concurrent connections.
    connections: usize,
    /// Time between two requests.
    idle: Duration,
    /// Time from the first byte of a line to its end.
    line: Duration,
    /// Time for the client to read an answer.
    write: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    idle: Duration::from_secs(60),
    line: Duration::from_secs(5),
    write: Duration::from_secs(5),
};

/// A listening control socket.
#[derive(Debug)]
pub struct Server {
    listener: Arc<Listener>,
    limits: Limits,
}

impl Server {
    /// Creates the socket at `path`, accessible to its owner only.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let listener = Listener::bind(&ListenAddress::Unix(path.to_owned()), "control")?;
        Ok(Self { listener, limits: LIMITS })
    }

    /// Returns its socket.
    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Serves clients until `stop`.
    pub fn serve(self, handler: &Arc<dyn Handler>, stop: &Stop) {
        let limits = self.limits;
        serve(
            "control",
            &self.listener,
            limits.connections,
            stop,
            |connection| converse(&connection, handler.as_ref(), &limits),
            |connection| {
                // The buffer of a new connection holds a line: this does not wait.
                let _ = send(&connection, &rpc::too_many(limits.connections), Duration::ZERO);
            },
        );
    }
}

/// Serves one client until it disconnects, stalls, or sends a line that is too long.
fn converse(connection: &Connection, handler: &dyn Handler, limits: &Limits) {
    let mut buffer = Vec::new();
    loop {
        match next_line(connection, &mut buffer, limits) {
            Some(Line::Complete(line)) => {
                let Some(reply) = rpc::answer(&line, handler) else { continue };
                if send(connection, &reply, limits.write).is_err() {
                    return;
                }
            }
            Some(Line::TooLong) => {
                let _ = send(connection, &rpc::too_long(LONGEST_LINE), limits.write);
                return;
            }
            None => return,
        }
    }
}

enum Line {
    Complete(Vec<u8>),
    TooLong,
}

/// Returns the next line that is not empty; `buffer` keeps the bytes after it. Returns `None` at the end, or if the client
/// stalls.
fn next_line(connection: &Connection, buffer: &mut Vec<u8>, limits: &Limits) -> Option<Line> {
    let mut deadline = Instant::now() + if buffer.is_empty() { limits.idle } else { limits.line };
    let mut chunk = [0; 4096];
    let mut searched = 0;
    loop {
        if let Some(end) = buffer[searched..].iter().position(|&byte| byte == b'\n') {
            let rest = buffer.split_off(searched + end + 1);
            let mut line = std::mem::replace(buffer, rest);
            line.truncate(line.trim_ascii_end().len());
            searched = 0;
            if !line.is_empty() {
                return Some(if line.len() > LONGEST_LINE { Line::TooLong } else { Line::Complete(line) });
            }
            continue;
        }
        if buffer.len() > LONGEST_LINE {
            return Some(Line::TooLong);
        }
        searched = buffer.len();
        let count = connection.read(&mut chunk, deadline).ok().filter(|&count| count > 0)?;
        if buffer.is_empty() {
            deadline = Instant::now() + limits.line;
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

fn send(connection: &Connection, reply: &str, time: Duration) -> std::io::Result<()> {
    connection.write_all(format!("{reply}\n").as_bytes(), Instant::now() + time)
}

#[cfg(test)]
mod tests;
