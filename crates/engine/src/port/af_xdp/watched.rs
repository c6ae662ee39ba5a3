//! State of an open port that its watcher reads while others use the port.

use crate::drops::Reason;
use crate::port::Site;
use netdev::{Link, RxMonitor};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use xsk::{Interface, Monitor};

/// Watched part of a session, which may belong to a mapping.
pub(super) struct Watched {
    /// The interface, as it was when the sockets were opened.
    pub(super) link: Link,
    pub(super) interface: Interface,
    /// Open sockets, and the frames that each had lost at the last look.
    pub(super) monitors: Mutex<Vec<(Monitor, u64)>>,
    /// Rings for frames that are steered to the kernel.
    pub(super) passed: Mutex<Vec<RxMonitor>>,
    pub(super) failed: AtomicBool,
}

impl Watched {
    /// Counts the kernel's losses.
    pub(super) fn count(&self, site: &dyn Site) {
        self.monitors.lock().unwrap().retain_mut(|(monitor, before)| {
            let Some(statistics) = monitor.statistics() else { return false };
            let lost = statistics.map_or(*before, |now| now.rx_dropped + now.rx_ring_full);
            if lost > *before {
                site.drops().add(Reason::KernelLoss, lost - *before);
            }
            *before = lost;
            true
        });
        self.passed.lock().unwrap().iter().for_each(|ring| site.count_losses(ring));
    }
}
