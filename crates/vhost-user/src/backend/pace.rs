//! Rate limit on queue restarts. Each restart costs a little time of workers that other ports share.
//!
//! A frontend above the limit waits: its own thread delays its next message. Reconnecting does not help, as the limit
//! belongs to the socket.

use std::time::{Duration, Instant};

/// Restarts allowed at once: all queues of the largest device, mapped, a few times over.
const AT_ONCE: f64 = 8192.0;

/// Sustained restarts per second. At some ten microseconds each they take less than a hundredth of a worker.
const A_SECOND: f64 = 512.0;

/// Budget of restarts.
pub(super) struct Pace {
    left: f64,
    at: Instant,
    told: bool,
}

/// Delay of a frontend's next message.
#[derive(Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) time: Duration,
    /// Whether it is the first since the budget was full.
    pub(super) is_first: bool,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { left: AT_ONCE, at: now, told: false }
    }

    /// Charges the restarts of one message; returns the delay of the next one, if any.
    pub(super) fn charge(&mut self, restarts: u32, now: Instant) -> Option<Wait> {
        let regained = now.saturating_duration_since(self.at).as_secs_f64() * A_SECOND;
        self.left = (self.left + regained).min(AT_ONCE);
        self.at = now;
        self.told &= self.left < AT_ONCE;
        self.left -= f64::from(restarts);
        let time = Duration::from_secs_f64((-self.left).max(0.0) / A_SECOND);
        (!time.is_zero()).then(|| Wait { time, is_first: !std::mem::replace(&mut self.told, true) })
    }

    /// Formats the limit.
    pub(super) fn limit() -> String {
        format!("{A_SECOND} times a second")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_a_loop_is_not() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.charge(AT_ONCE as u32, start), None);
        let mut now = start;
        let mut said = 0;
        for _ in 0..1000 {
            let wait = pace.charge(1, now).expect("it has to wait");
            said += u32::from(wait.is_first);
            now += wait.time;
        }
        let (took, least) = ((now - start).as_secs_f64(), 999.0 / A_SECOND);
        assert!((least..least * 1.1).contains(&took), "{took}");
        assert_eq!(said, 1);
    }

    #[test]
    fn a_peer_that_keeps_still_starts_afresh() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!(pace.charge(2 * AT_ONCE as u32, start).unwrap().is_first);
        let later = start + Duration::from_secs_f64(2.0 * AT_ONCE / A_SECOND);
        assert_eq!(pace.charge(AT_ONCE as u32, later), None);
        assert!(pace.charge(1, later).unwrap().is_first);
    }
}
