//! Rate-limited logging for one socket: a peer that connects thousands of times per second must not fill the disk.

use std::fmt::Arguments;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(1);
const LINES: u32 = 10;

/// Rate-limited logger of one socket.
pub(crate) struct Journal {
    socket: String,
    state: Mutex<State>,
}

struct State {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Journal {
    pub(crate) fn new(socket: &Path) -> Self {
        let state = Mutex::new(State { since: Instant::now(), written: 0, left_out: 0 });
        Journal { socket: socket.display().to_string(), state }
    }

    pub(crate) fn info(&self, line: Arguments<'_>) {
        if let Some(left_out) = self.admit(Instant::now()) {
            tracing::info!(socket = self.socket, left_out, "{line}");
        }
    }

    pub(crate) fn warn(&self, line: Arguments<'_>) {
        if let Some(left_out) = self.admit(Instant::now()) {
            tracing::warn!(socket = self.socket, left_out, "{line}");
        }
    }

    /// Returns how many lines were suppressed before this one, or `None` to suppress it too.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if now.duration_since(state.since) >= WINDOW {
            state.since = now;
            state.written = 0;
        }
        if state.written == LINES {
            state.left_out += 1;
            return None;
        }
        state.written += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_left_out_and_counted() {
        let journal = Journal::new(Path::new("socket"));
        let start = Instant::now();
        let written = (0..1000).filter(|_| journal.admit(start).is_some()).count();
        assert_eq!(written, LINES as usize);
        assert_eq!(journal.admit(start + WINDOW * 2), Some(1000 - u64::from(LINES)));
        assert_eq!(journal.admit(start + WINDOW * 2), Some(0));
    }
}
