//! Values that a control thread changes and workers read: a worker checks one number per burst, and takes the new value
//! when it has changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A value in force.
pub(crate) struct Live<T> {
    /// Number of changes, written under the lock.
    version: AtomicU64,
    value: Mutex<Arc<T>>,
}

impl<T> Live<T> {
    pub(crate) fn new(value: T) -> Live<T> {
        Live { version: AtomicU64::new(1), value: Mutex::new(Arc::new(value)) }
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        // Workers wait for this lock: nothing is allocated or freed under it.
        let mut value = Arc::new(value);
        let mut now = self.value.lock().unwrap();
        std::mem::swap(&mut *now, &mut value);
        self.version.fetch_add(1, Ordering::Release);
        drop(now);
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.value.lock().unwrap().clone()
    }
}

/// A reader's view of a value.
pub(crate) struct Reader<T> {
    live: Arc<Live<T>>,
    seen: u64,
    value: Arc<T>,
}

impl<T> Reader<T> {
    pub(crate) fn new(live: Arc<Live<T>>) -> Reader<T> {
        let value = live.get();
        // No value has version zero, so the first look finds a change.
        Reader { live, seen: 0, value }
    }

    /// Reports whether the value has changed since the last [`Reader::refresh`], without taking the new one.
    #[inline(always)]
    pub(crate) fn is_outdated(&self) -> bool {
        self.live.version.load(Ordering::Acquire) != self.seen
    }

    /// Takes the new value if it has changed since the last call.
    #[inline(always)]
    pub(crate) fn refresh(&mut self) {
        let version = self.live.version.load(Ordering::Acquire);
        if version != self.seen {
            self.take(version);
        }
    }

    #[cold]
    fn take(&mut self, version: u64) {
        self.value = self.live.get();
        // The value may be newer than this version; then the next look takes it again.
        self.seen = version;
    }

    /// Returns the value as of the last look.
    #[inline(always)]
    pub(crate) fn value(&self) -> &Arc<T> {
        &self.value
    }
}
