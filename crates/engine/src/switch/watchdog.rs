//! Watches the workers: says which one hangs, and where, and when it goes on.
//!
//! It waits for nobody, so that it can tell when everybody else does.

use super::{Inner, Topology};
use crate::worker::{Change, Pulse, STILL};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it looks.
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
    /// Where a worker is, for people.
    pub(super) fn place(&self, pulse: &Pulse) -> String {
        let place = pulse.counters.place.get();
        let stage = place.stage().name();
        let Some((id, queue)) = place.queue() else { return stage.into() };
        match self.layout.ports.iter().find(|port| port.id == id) {
            Some(port) => format!("port \"{}\" queue {queue} ({stage})", port.name),
            None => format!("a port that has gone ({stage})"),
        }
    }
}

/// How long a worker has hung, if it does, in seconds.
pub(super) fn hung(pulse: &Pulse) -> Option<f64> {
    pulse.hung().map(|time| time.max(STILL).as_secs_f64())
}
