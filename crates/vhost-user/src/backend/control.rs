//! Control of a session's thread from outside, even while the thread is blocked.

use crate::wait;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// State shared between a service's handle and its thread.
pub(super) struct Control {
    stop: AtomicBool,
    /// Eventfd that stays readable once `stop` is set.
    wake: OwnedFd,
    /// The current connection.
    present: Mutex<Option<Present>>,
}

struct Present {
    stream: Arc<UnixStream>,
    dropped: bool,
}

impl Control {
    pub(super) fn new() -> io::Result<Control> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Control { stop: AtomicBool::new(false), wake, present: Mutex::new(None) })
    }

    fn present(&self) -> MutexGuard<'_, Option<Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // No one else writes it: never full.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        self.disconnect();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Ends the current session. Shutting its socket down also ends a system call that the thread is blocked in.
    pub(super) fn disconnect(&self) {
        if let Some(present) = self.present().as_mut() {
            present.dropped = true;
            let _ = present.stream.shutdown(Shutdown::Both);
        }
    }

    /// Records the stream of a new session.
    pub(super) fn begin(&self, stream: Arc<UnixStream>) {
        // A stop after this line finds the stream; the session itself notices an earlier one.
        *self.present() = Some(Present { stream, dropped: false });
    }

    /// Reports whether this side ended the session.
    pub(super) fn is_dropped(&self) -> bool {
        self.is_stopped() || self.present().as_ref().is_some_and(|p| p.dropped)
    }

    /// Forgets the stream.
    pub(super) fn end(&self) {
        *self.present() = None;
    }

    /// Waits until `fd` is readable or the service stops.
    pub(super) fn wait_for(&self, fd: &dyn AsFd) {
        wait::readable([fd, &self.wake], None);
    }

    /// Waits until the service stops, for at most `time`.
    pub(super) fn sleep(&self, time: Duration) {
        wait::readable([&self.wake], Some(time));
    }
}
