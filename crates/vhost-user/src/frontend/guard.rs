//! A time limit on everything that waits for the device.

use super::error::FrontendError;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Interval between checks whether to give up.
const TICK: Duration = Duration::from_millis(20);

/// Longest pause between two attempts; the first one is [`TICK`].
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// A deadline, and a flag that ends the wait earlier.
pub(super) struct Guard<'a> {
    deadline: Option<Instant>,
    stop: &'a AtomicBool,
}

impl<'a> Guard<'a> {
    pub(super) fn new(timeout: Option<Duration>, stop: &'a AtomicBool) -> Self {
        Guard { deadline: timeout.map(|t| Instant::now() + t), stop }
    }

    /// Returns an error if it is time to give up.
    pub(super) fn check(&self) -> Result<(), FrontendError> {
        if self.stop.load(Ordering::Acquire) {
            return Err(FrontendError::Stopped);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(FrontendError::Timeout),
            _ => Ok(()),
        }
    }

    /// Calls `attempt` until it returns a value. Unparking the thread makes it check at once whether to stop.
    pub(super) fn retry<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, FrontendError>,
    ) -> Result<T, FrontendError> {
        let mut pause = TICK;
        loop {
            self.check()?;
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            std::thread::park_timeout(left.map_or(pause, |left| left.min(pause)));
            // Hundreds that wait for peers which may never come must not keep a processor busy.
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs `blocking`, which blocks on `stream`. The library has no timeouts, so a watcher thread shuts the connection
    /// down when time is up, which ends any system call on it.
    pub(super) fn watch<T>(
        &self,
        stream: &UnixStream,
        blocking: impl FnOnce() -> Result<T, FrontendError>,
    ) -> Result<T, FrontendError> {
        let (done, is_done) = channel::<()>();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                while is_done.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    if let Err(reason) = self.check() {
                        let _ = stream.shutdown(Shutdown::Both);
                        return Some(reason);
                    }
                }
                None
            });
            let result = blocking();
            drop(done);
            match watcher.join() {
                Ok(Some(reason)) => Err(reason),
                _ => result,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_peer_is_tried_less_and_less_often() {
        let (stop, mut attempts) = (AtomicBool::new(false), 0);
        let none = Guard::new(Some(Duration::from_secs(1)), &stop).retry(|| {
            attempts += 1;
            Ok(None::<()>)
        });
        assert!(matches!(none, Err(FrontendError::Timeout)));
        // After 20, 60, 140, 300, 460, 620, 780, 940 and 1000 ms.
        assert!((2..=12).contains(&attempts), "{attempts} attempts in a second");
    }
}
