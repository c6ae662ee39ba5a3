//! Rate-limited logging for one socket: a peer that connects thousands of times per second must not fill the disk.

use std::fmt::Arguments;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Period in which lines are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// Lines written in a period; more are left out.
const LINES: u32 = 10;

/// Rate-limited logger of one socket.
#[derive(Debug)]
pub(crate) struct RateLimitedLog {
    socket: String,
    current: Mutex<Period>,
}

/// The lines of the current period.
#[derive(Debug)]
struct Period {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl RateLimitedLog {
    pub(crate) fn new(socket: &Path) -> Self {
        let current = Mutex::new(Period { since: Instant::now(), written: 0, left_out: 0 });
        RateLimitedLog { socket: socket.display().to_string(), current }
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
        let mut period = self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if now.duration_since(period.since) >= PERIOD {
            period.since = now;
            period.written = 0;
        }
        if period.written == LINES {
            period.left_out += 1;
            return None;
        }
        period.written += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_left_out_and_counted() {
        let log = RateLimitedLog::new(Path::new("socket"));
        let start = Instant::now();
        let written = (0..1000).filter(|_| log.admit(start).is_some()).count();
        assert_eq!(written, LINES as usize);
        assert_eq!(log.admit(start + PERIOD * 2), Some(1000 - u64::from(LINES)));
        assert_eq!(log.admit(start + PERIOD * 2), Some(0));
    }
}
