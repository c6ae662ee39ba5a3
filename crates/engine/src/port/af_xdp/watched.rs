//! State of an open port that its watcher reads while others use the port.

use crate::drops::Reason;
use crate::port::Site;
use netdev::{Link, RxMonitor};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use xsk::{Interface, Monitor};

/// An open socket.
pub(super) struct WatchedSocket {
    pub(super) monitor: Monitor,
    /// Frames that it had lost at the last look.
    pub(super) lost: u64,
}

/// Watched part of a session, which may belong to a mapping.
pub(super) struct Watched {
    /// The interface, as it was when the sockets were opened.
    pub(super) link: Link,
    pub(super) interface: Interface,
    pub(super) sockets: Mutex<Vec<WatchedSocket>>,
    /// Rings for frames that are steered to the kernel.
    pub(super) passed: Mutex<Vec<RxMonitor>>,
    pub(super) failed: AtomicBool,
}

impl Watched {
    /// Counts the kernel's losses.
    pub(super) fn count(&self, site: &dyn Site) {
        self.sockets.lock().unwrap().retain_mut(|socket| {
            let Some(statistics) = socket.monitor.statistics() else { return false };
            let lost = statistics.map_or(socket.lost, |now| now.rx_dropped + now.rx_ring_full);
            if lost > socket.lost {
                site.drops().add(Reason::KernelLoss, lost - socket.lost);
            }
            socket.lost = lost;
            true
        });
        self.passed.lock().unwrap().iter().for_each(|ring| site.count_losses(ring));
    }
}
