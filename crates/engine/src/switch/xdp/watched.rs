//! What is seen of an open port by who looks after it, while others use it.

use crate::drops::Reason;
use crate::switch::shared::PortShared;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use xsk::Monitor;

/// What is watched of a session, wherever that is.
pub(super) struct Watched {
    pub(super) interface: String,
    pub(super) index: u32,
    /// What the sockets were opened for.
    pub(super) mtu: usize,
    /// Open sockets, and how many frames each had lost when it was last looked at.
    pub(super) monitors: Mutex<Vec<(Monitor, u64)>>,
    pub(super) failed: AtomicBool,
}

impl Watched {
    /// Counts what the kernel has lost.
    pub(super) fn count(&self, shared: &PortShared) {
        self.monitors.lock().unwrap().retain_mut(|(monitor, before)| {
            let Some(statistics) = monitor.statistics() else { return false };
            let lost = statistics.map_or(*before, |now| now.rx_dropped + now.rx_ring_full);
            if lost > *before {
                shared.drops.add(Reason::KernelLoss, lost - *before);
            }
            *before = lost;
            true
        });
    }
}
