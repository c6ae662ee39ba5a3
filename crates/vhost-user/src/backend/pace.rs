//! Rate limit on the load that a frontend puts on others: restarts of queues, which take time of workers, and processor time
//! of its session.
//!
//! A frontend above the limit waits: its own thread delays its next message. Reconnecting does not help, as the limit belongs
//! to the socket.

use std::time::{Duration, Instant};

/// Restarts allowed at once: all queues of the largest device, mapped, a few times over. At some ten microseconds each, those of a second
/// take less than a hundredth of a worker.
const RESTARTS: Limit = Limit { at_once: 8192.0, a_second: 512.0 };

/// Seconds of a processor: enough at once for all messages of the largest device, and then a tenth of a processor.
const PROCESSOR: Limit = Limit { at_once: 2.0, a_second: 0.1 };

/// Seconds of a processor for pages that guests had not touched: a large guest has many, once.
const PAGES: Limit = Limit { at_once: 60.0, a_second: 0.1 };

struct Limit {
    at_once: f64,
    a_second: f64,
}

/// The rest of a limit.
struct Budget {
    limit: Limit,
    left: f64,
}

impl Budget {
    fn new(limit: Limit) -> Budget {
        Budget { left: limit.at_once, limit }
    }

    fn regain(&mut self, time: Duration) {
        self.left = (self.left + time.as_secs_f64() * self.limit.a_second).min(self.limit.at_once);
    }

    fn is_full(&self) -> bool {
        self.left >= self.limit.at_once
    }

    /// Takes from the budget; returns how long it takes to pay a debt.
    fn take(&mut self, cost: f64) -> Duration {
        self.left -= cost;
        Duration::from_secs_f64((-self.left).max(0.0) / self.limit.a_second)
    }
}

/// Cost of a message to others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Effort {
    /// Restarts of a queue that workers only poll, or as much work for them.
    pub(super) restarts: u32,
    /// Processor time of the session's thread so far: what it took since the last charge counts, for this session or the one before.
    pub(super) time: Duration,
    /// Processor time for pages of the guest's memory.
    pub(super) pages: Duration,
}

/// Budget of a socket's frontends.
pub(super) struct Pace {
    restarts: Budget,
    processor: Budget,
    pages: Budget,
    /// Processor time of the session's thread when it was last charged.
    counted: Duration,
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
        Pace {
            restarts: Budget::new(RESTARTS),
            processor: Budget::new(PROCESSOR),
            pages: Budget::new(PAGES),
            counted: Duration::ZERO,
            at: now,
            told: false,
        }
    }

    /// Charges one message; returns the delay of the next one, if any.
    pub(super) fn charge(&mut self, effort: Effort, now: Instant) -> Option<Wait> {
        let since = now.saturating_duration_since(self.at);
        self.restarts.regain(since);
        self.processor.regain(since);
        self.pages.regain(since);
        self.at = now;
        self.told &= ![&self.restarts, &self.processor, &self.pages].into_iter().all(Budget::is_full);
        let took = effort.time.saturating_sub(std::mem::replace(&mut self.counted, effort.time));
        let restarts = self.restarts.take(effort.restarts.into());
        let processor = self.processor.take(took.as_secs_f64());
        let pages = self.pages.take(effort.pages.as_secs_f64());
        let time = restarts.max(processor).max(pages);
        (!time.is_zero()).then(|| Wait { time, is_first: !std::mem::replace(&mut self.told, true) })
    }

    /// Formats the limits.
    pub(super) fn limit() -> String {
        format!("{} restarts of queues a second, or {} of a processor", RESTARTS.a_second, PROCESSOR.a_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restarts(restarts: f64) -> Effort {
        Effort { restarts: restarts as u32, ..Effort::default() }
    }

    /// Charges an effort a thousand times beyond the limit, each of which takes `step` of the thread's time; returns how long that takes.
    fn repeated(effort: Effort, at_once: Effort, step: Duration) -> f64 {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.charge(at_once, start), None);
        let (mut now, mut time) = (start, at_once.time);
        let mut said = 0;
        for _ in 0..1000 {
            time += step;
            let wait = pace.charge(Effort { time, ..effort }, now).expect("it has to wait");
            said += u32::from(wait.is_first);
            now += wait.time;
        }
        assert_eq!(said, 1);
        (now - start).as_secs_f64()
    }

    #[test]
    fn a_burst_is_free_and_a_loop_is_not() {
        for (took, least) in [
            (repeated(restarts(1.0), restarts(RESTARTS.at_once), Duration::ZERO), 1000.0 / RESTARTS.a_second),
            (
                repeated(
                    Effort::default(),
                    Effort { time: Duration::from_secs_f64(PROCESSOR.at_once), ..Effort::default() },
                    Duration::from_millis(1),
                ),
                1.0 / PROCESSOR.a_second,
            ),
        ] {
            assert!((least * 0.99..least * 1.1).contains(&took), "{took} {least}");
        }
    }

    #[test]
    fn a_peer_that_keeps_still_starts_afresh() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let all = restarts(RESTARTS.at_once);
        assert!(pace.charge(restarts(2.0 * RESTARTS.at_once), start).unwrap().is_first);
        let later = start + Duration::from_secs_f64(2.0 * RESTARTS.at_once / RESTARTS.a_second);
        assert_eq!(pace.charge(all, later), None);
        assert!(pace.charge(restarts(1.0), later).unwrap().is_first);
    }

    #[test]
    fn pages_of_a_large_guest_are_nearly_free() {
        let pages = Duration::from_secs(40);
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let filled = Effort { pages, ..Effort::default() };
        assert_eq!(pace.charge(filled, start), None);
        assert!(pace.charge(filled, start).is_some(), "not again and again");
    }
}
