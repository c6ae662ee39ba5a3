//! Limits how long anything that waits for the device may take.

use super::error::FrontendError;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often is looked whether to give up.
const TICK: Duration = Duration::from_millis(20);

/// Until when to wait, and what ends the waiting earlier.
pub(super) struct Guard<'a> {
    deadline: Option<Instant>,
    stop: &'a AtomicBool,
}

impl<'a> Guard<'a> {
    pub(super) fn new(timeout: Option<Duration>, stop: &'a AtomicBool) -> Self {
        Guard { deadline: timeout.map(|t| Instant::now() + t), stop }
    }

    /// An error if it is time to give up.
    pub(super) fn check(&self) -> Result<(), FrontendError> {
        if self.stop.load(Ordering::Acquire) {
            return Err(FrontendError::Stopped);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(FrontendError::Timeout),
            _ => Ok(()),
        }
    }

    /// Asks `attempt` again and again until it has something.
    pub(super) fn retry<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, FrontendError>,
    ) -> Result<T, FrontendError> {
        loop {
            self.check()?;
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Does something that blocks on `stream`. The library has no timeouts, so when it is time to give up, the
    /// connection is shut down, which ends any system call on it.
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
