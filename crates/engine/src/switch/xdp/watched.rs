//! What is seen of an open port by who looks after it, while others use it.

use crate::drops::Reason;
use crate::switch::shared::PortShared;
use netdev::{Link, RxMonitor};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use xsk::{Interface, Monitor};

/// What is watched of a session, wherever that is.
pub(super) struct Watched {
    /// The interface, as it was when the sockets were opened for it.
    pub(super) link: Link,
    pub(super) interface: Interface,
    /// Open sockets, and how many frames each had lost when it was last looked at.
    pub(super) monitors: Mutex<Vec<(Monitor, u64)>>,
    /// Rings of what is steered to the kernel.
    pub(super) passed: Mutex<Vec<RxMonitor>>,
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
        self.passed.lock().unwrap().iter().for_each(|ring| shared.count_losses(ring));
    }
}
