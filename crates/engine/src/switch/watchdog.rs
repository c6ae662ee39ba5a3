//! The watchdog: reports which worker hangs, where, and when it goes on.
//!
//! It waits for no other thread, so that it can report when all others hang.

use super::inner::Inner;
use crate::worker::Life;
use api::event::EventKind;
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
                    Some(Life::Hangs(time)) => {
                        let (place, seconds) = (topology.place(pulse), time.as_secs_f64());
                        tracing::error!(
                            "worker {index} has been at {place} for {seconds:.1} s; nothing that it serves moves meanwhile"
                        );
                        self.events.tell(EventKind::WorkerHung { worker: index, place, seconds });
                    }
                    Some(Life::GoesOn(time)) => {
                        let seconds = time.as_secs_f64();
                        tracing::warn!("worker {index} goes on after {seconds:.1} s");
                        self.events.tell(EventKind::WorkerRecovered { worker: index, seconds });
                    }
                    None => {}
                }
            }
        }
    }
}
