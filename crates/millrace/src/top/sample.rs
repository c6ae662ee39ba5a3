//! A sample of the switch: all of its counters, and the time of reading them.

use api::request::Stats;
use client::{Client, ClientError};
use engine::stats::Snapshot;
use std::path::Path;
use std::time::Instant;

/// Seconds by which two computations of the same moment may differ.
const ROUNDING: f64 = 0.001;

/// All counters of a switch, and the moments between which they were read.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) snapshot: Snapshot,
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

impl Sample {
    /// Asks the switch at `socket`. Opens a new connection each time, so that it holds no connection and survives a restart
    /// of the switch.
    pub(super) fn take(socket: &Path) -> Result<Sample, ClientError> {
        let asked = Instant::now();
        let snapshot = Client::connect(socket)?.call(&Stats {})?;
        Ok(Sample { snapshot, asked, answered: Instant::now() })
    }

    /// Reports whether the switch was started after `before` was taken. Uptimes alone don't tell: the new switch may already
    /// run for longer than the old one did.
    pub(super) fn is_of_a_switch_started_after(&self, before: &Sample) -> bool {
        // The switch that answered started between `asked - uptime` and `answered - uptime`.
        let earliest = self.asked.saturating_duration_since(before.answered).as_secs_f64();
        self.snapshot.uptime_seconds + ROUNDING < before.snapshot.uptime_seconds + earliest
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::time::Duration;

    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Returns a sample that was asked for at second `at` of the test, and answered 2 ms later.
    pub(in crate::top) fn sample(at: f64, snapshot: Snapshot) -> Sample {
        let asked = *BEGIN + Duration::from_secs_f64(at);
        Sample { snapshot, asked, answered: asked + Duration::from_millis(2) }
    }

    fn up(at: f64, uptime_seconds: f64) -> Sample {
        sample(at, Snapshot { uptime_seconds, ..Snapshot::default() })
    }

    #[test]
    fn a_restarted_switch_is_known_by_when_it_started() {
        let restarted = |at, uptime| up(at, uptime).is_of_a_switch_started_after(&up(100.0, 50.0));
        assert!(!restarted(101.0, 51.0));
        assert!(!restarted(101.0, 51.002), "it answered late");
        assert!(restarted(101.0, 0.5));
        assert!(restarted(200.0, 60.0), "the new one already runs for longer than the old one did");
    }
}
