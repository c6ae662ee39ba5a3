//! The state of a recording, as users see it: reading it never waits for the file.

use crate::drops::{Drops, Reason};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Reason why a recording takes no frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The frames are counted under this.
    pub(super) reason: Reason,
    /// The cause, for users.
    pub(super) why: String,
}

impl Trouble {
    pub(super) fn new(reason: Reason, why: impl Display) -> Trouble {
        Trouble { reason, why: why.to_string() }
    }
}

/// See the module. The thread that has the file writes it.
#[derive(Default)]
pub(super) struct Shown {
    taken: AtomicU64,
    written: AtomicU64,
    lost: Drops,
    trouble: Mutex<Option<Trouble>>,
}

impl Shown {
    /// Counts frames that were taken, to be written.
    pub(super) fn add_taken(&self, frames: u64) {
        self.taken.fetch_add(frames, Relaxed);
    }

    /// Counts frames of these that are in the file.
    pub(super) fn add_written(&self, frames: u64) {
        self.written.fetch_add(frames, Relaxed);
    }

    /// Counts frames that were not taken.
    pub(super) fn add_lost(&self, frames: u64, reason: Reason) {
        self.lost.add(reason, frames);
    }

    /// Counts frames that were taken, and will not be in the file.
    pub(super) fn add_given_up(&self, frames: u64, reason: Reason) {
        if frames > 0 {
            self.taken.fetch_sub(frames, Relaxed);
            self.lost.add(reason, frames);
        }
    }

    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap() = trouble;
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap().clone()
    }

    /// Returns how many frames are in the file.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Returns how many frames wait to be written.
    pub(super) fn waiting(&self) -> u64 {
        self.taken.load(Relaxed).saturating_sub(self.written())
    }

    /// Returns how many frames are missing in the file, by reason.
    pub(super) fn lost(&self) -> BTreeMap<String, u64> {
        self.lost.named()
    }
}
