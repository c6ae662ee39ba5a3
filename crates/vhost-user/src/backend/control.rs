//! How the outside reaches a session's thread, whatever that is blocked in.

use crate::wait;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shared between a service's handle and its thread.
pub(super) struct Control {
    stop: AtomicBool,
    /// Readable once `stop` is set, and for ever after.
    wake: OwnedFd,
    /// The present connection.
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
        // Ours alone: it is never full.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        self.disconnect();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Ends the present session. Shutting its socket down also ends a system call that the thread is blocked in.
    pub(super) fn disconnect(&self) {
        if let Some(present) = self.present().as_mut() {
            present.dropped = true;
            let _ = present.stream.shutdown(Shutdown::Both);
        }
    }

    /// A session begins.
    pub(super) fn begin(&self, stream: Arc<UnixStream>) {
        // Whoever stops the service after this line finds the stream; who did before, is found by the session.
        *self.present() = Some(Present { stream, dropped: false });
    }

    /// The session was ended from this side.
    pub(super) fn is_dropped(&self) -> bool {
        self.is_stopped() || self.present().as_ref().is_some_and(|p| p.dropped)
    }

    /// The session ended.
    pub(super) fn end(&self) {
        *self.present() = None;
    }

    /// Waits until `fd` is readable or the service stops.
    pub(super) fn wait_for(&self, fd: &dyn AsFd) {
        wait::readable([fd, &self.wake], None);
    }

    /// Waits until the service stops, at most for `time`.
    pub(super) fn sleep(&self, time: Duration) {
        wait::readable([&self.wake], Some(time));
    }
}
