//! The server side of the control socket.

use super::methods::Caller;
use super::{Handler, LONGEST_LINE, rpc};
use crate::config::ListenAddress;
use crate::serve::{Connection, ListenError, Listener, Stop, serve};
use engine::events::Follower;
use std::os::fd::AsFd;
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
    /// Time for a client that follows the events to read some: it may be slow, and loses events then.
    follow: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    idle: Duration::from_secs(60),
    line: Duration::from_secs(5),
    write: Duration::from_secs(5),
    follow: Duration::from_secs(3600),
};

/// Longer than any connection.
const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

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
    let mut caller = Caller { handler, follower: None };
    let mut buffer = Vec::new();
    loop {
        match next_line(connection, &mut buffer, limits, caller.follower.as_ref()) {
            Some(Line::Complete(line)) => {
                let Some(reply) = rpc::answer(&line, &mut caller) else { continue };
                if send(connection, &reply, limits.write).is_err() {
                    return;
                }
            }
            Some(Line::TooLong) => {
                let _ = send(connection, &rpc::too_long(LONGEST_LINE), limits.write);
                return;
            }
            Some(Line::Later) => {
                let events = caller.follower.as_mut().map(Follower::take).unwrap_or_default();
                let lines = rpc::notifications(&events);
                if connection.write_all(lines.as_bytes(), Instant::now() + limits.follow).is_err() {
                    return;
                }
            }
            None => return,
        }
    }
}

enum Line {
    Complete(Vec<u8>),
    TooLong,
    /// There are events before the next line.
    Later,
}

/// Returns the next line that is not empty; `buffer` keeps the bytes after it. Returns `None` at the end, or if the client
/// stalls. A follower of the events need not say anything.
fn next_line(
    connection: &Connection,
    buffer: &mut Vec<u8>,
    limits: &Limits,
    follower: Option<&Follower>,
) -> Option<Line> {
    let idle = if follower.is_some() { ENDLESS } else { limits.idle };
    let mut deadline = Instant::now() + if buffer.is_empty() { idle } else { limits.line };
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
        let read = match follower {
            None => connection.read(&mut chunk, deadline).map(Some),
            Some(follower) => connection.read_unless(&mut chunk, deadline, follower.as_fd()),
        };
        let Some(count) = read.ok()? else { return Some(Line::Later) };
        if count == 0 {
            return None;
        }
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
