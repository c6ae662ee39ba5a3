//! The report that the session of a port's peer has to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use virtqueue::Fatal;
use virtqueue::memory::Memory;

/// Report to the control side that a queue had to stop, and why.
#[derive(Debug, Default)]
pub struct SessionFault {
    raised: AtomicBool,
    reason: Mutex<Option<Ending>>,
    memory: Mutex<Weak<Memory>>,
}

/// Reason for which a guest's connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// The guest broke its ring.
    #[error("the guest broke its ring and is disconnected: {0}")]
    Broken(#[from] Fatal),
    /// Some of the guest's buffers cannot be returned, see [`SessionFault::withhold`].
    #[error("the guest is disconnected: {0}")]
    Withheld(String),
}

impl SessionFault {
    #[cold]
    pub(super) fn raise(&self, ending: impl Into<Ending>) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Uncontended: only the first to raise it comes here, once in the life of a connection.
            *self.reason.lock().unwrap() = Some(ending.into());
        }
    }

    /// Disconnects the guest, because something still owns some of its buffers, so that they cannot be returned.
    pub fn withhold(&self, why: String) {
        self.raise(Ending::Withheld(why));
    }

    #[inline(always)]
    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Takes the reason if a queue stopped since the last call, or if pages of the guest's memory vanished. Then calls `end`,
    /// which has to end the connection; no other connection begins meanwhile.
    pub fn take(&self, end: impl FnOnce()) -> Option<Ending> {
        let vanished = self.memory.lock().unwrap().upgrade().is_some_and(|m| m.is_broken());
        if vanished {
            self.raise(Fatal::MemoryVanished);
        }
        let mut reason = self.reason.lock().unwrap();
        let taken = reason.take()?;
        end();
        // Errors of the rings since then come from the zeros that replaced the memory.
        Some(if vanished { Fatal::MemoryVanished.into() } else { taken })
    }

    /// Also watches the memory that the guest's queues use from now on.
    pub fn watch(&self, memory: &Arc<Memory>) {
        *self.memory.lock().unwrap() = Arc::downgrade(memory);
    }

    /// Clears the fault for a new connection.
    pub fn clear(&self) {
        *self.reason.lock().unwrap() = None;
        self.raised.store(false, Ordering::Release);
    }
}
