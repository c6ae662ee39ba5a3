//! The reasons for which any controller wants packets, as workers see them.

use openflow::WantedPackets;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module. At first there are none.
#[derive(Debug, Default)]
pub(in crate::forward) struct LiveWanted(AtomicU32);

impl LiveWanted {
    /// Sets them. They apply to bursts received afterwards.
    pub(super) fn set(&self, wanted: WantedPackets) {
        self.0.store(wanted.0, Ordering::Relaxed);
    }

    pub(in crate::forward) fn get(&self) -> WantedPackets {
        WantedPackets(self.0.load(Ordering::Relaxed))
    }
}
