//! The watchdog: reports which worker hangs, where, and when it goes on.
//!
//! It waits for no other thread, so that it can report when all others hang.

use super::{Inner, Topology};
use crate::queue_key::QueueKey;
use crate::worker::{Change, Pulse, STILL};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(100);

impl Inner {
    /// Watches until the switch has stopped.
    pub(super) fn watch(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK);
            let topology = self.topology();
            for pulse in &topology.workers {
                let index = pulse.index;
                match pulse.look(Instant::now()) {
                    Some(Change::Hangs(time)) => tracing::error!(
                        "worker {index} has been at {} for {:.1} s; nothing that it serves moves meanwhile",
                        topology.place(pulse),
                        time.as_secs_f64()
                    ),
                    Some(Change::GoesOn(time)) => {
                        tracing::warn!("worker {index} goes on after {:.1} s", time.as_secs_f64());
                    }
                    None => {}
                }
            }
        }
    }
}

impl Topology {
    /// Describes the place of a worker for display.
    pub(super) fn place(&self, pulse: &Pulse) -> String {
        let place = pulse.counters.place.get();
        let activity = place.activity().name();
        let Some(QueueKey { port, queue }) = place.queue() else { return activity.into() };
        match self.layout.ports.iter().find(|shared| shared.id == port) {
            Some(shared) => format!("port \"{}\" queue {queue} ({activity})", shared.name),
            None => format!("a port that has gone ({activity})"),
        }
    }
}

/// Returns how long a worker has hung, in seconds, if it hangs.
pub(super) fn hung(pulse: &Pulse) -> Option<f64> {
    pulse.hung().map(|time| time.max(STILL).as_secs_f64())
}
