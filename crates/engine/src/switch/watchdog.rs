//! The watchdog: reports which worker hangs, where, and when it goes on.
//!
//! It waits for no other thread, so that it can report when all others hang.

use super::inner::Inner;
use crate::worker::Life;
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
                    Some(Life::Hangs(time)) => tracing::error!(
                        "worker {index} has been at {} for {:.1} s; nothing that it serves moves meanwhile",
                        topology.place(pulse),
                        time.as_secs_f64()
                    ),
                    Some(Life::GoesOn(time)) => {
                        tracing::warn!("worker {index} goes on after {:.1} s", time.as_secs_f64());
                    }
                    None => {}
                }
            }
        }
    }
}
