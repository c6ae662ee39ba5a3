//! Pauses between sessions, and which session ends are logged.
//!
//! A refused frontend tends to reconnect at once, thousands of times per second, and to be refused each time for the
//! same reason. Each session costs this side more than the frontend, and each log line costs disk space. So each
//! session that ends soon after it began lengthens the pause before the next one; a guest that ran for a while
//! reconnects without a pause.

use super::session::Ending;
use std::time::Duration;

/// Duration from which a session counts as normal.
const CALM: Duration = Duration::from_secs(1);

const SHORTEST: Duration = Duration::from_millis(1);

/// Longest pause after a frontend that left by itself, as happens when it is restarted repeatedly.
const LONGEST_LEFT: Duration = Duration::from_millis(20);

/// Longest pause after a frontend that broke the protocol or was disconnected.
const LONGEST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Backoff {
    pause: Duration,
    /// Reason for the last session's end, and how often in a row.
    last: Option<(String, u64)>,
}

impl Backoff {
    /// Records how a session ended. Returns the line to log, if any: of a repeated reason, only the first, second,
    /// fourth, eighth and so on occurrence is logged.
    pub(super) fn record_end(&mut self, lasted: Duration, ending: &Ending) -> Option<String> {
        if lasted >= CALM {
            *self = Backoff::default();
        } else {
            let longest = if ending.left { LONGEST_LEFT } else { LONGEST };
            self.pause = (self.pause * 2).clamp(SHORTEST, longest);
        }
        let reason = &ending.reason;
        let times = match &mut self.last {
            Some((last, times)) if last == reason => {
                *times += 1;
                *times
            }
            last => {
                *last = Some((reason.clone(), 1));
                1
            }
        };
        match times {
            1 => Some(format!("the vhost-user session ended: {reason}")),
            _ if times.is_power_of_two() => {
                let pause = self.pause;
                Some(format!("the last {times} vhost-user sessions ended at once, the next waits {pause:?}: {reason}"))
            }
            _ => None,
        }
    }

    /// Returns how long the next session has to wait.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Reports whether to log the next connection.
    pub(super) fn is_calm(&self) -> bool {
        self.pause <= LONGEST_LEFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(left: bool) -> Ending {
        Ending { reason: if left { "it left" } else { "it lied" }.into(), left }
    }

    #[test]
    fn refused_peers_wait_longer_each_time_and_are_logged_less() {
        let mut backoff = Backoff::default();
        let mut waited = Duration::ZERO;
        let mut lines = 0;
        for _ in 0..20 {
            lines += usize::from(backoff.record_end(SHORTEST, &ending(false)).is_some());
            assert!(backoff.pause() > waited || backoff.pause() == LONGEST);
            waited = backoff.pause();
        }
        assert_eq!((waited, lines), (LONGEST, 5));
        assert!(backoff.record_end(SHORTEST, &ending(true)).is_some(), "another reason");
    }

    #[test]
    fn a_short_session_delays_the_next_a_little_and_a_long_one_does_not() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(), Duration::ZERO);
        for _ in 0..20 {
            backoff.record_end(SHORTEST, &ending(true));
        }
        assert_eq!(backoff.pause(), LONGEST_LEFT);
        backoff.record_end(SHORTEST, &ending(false));
        backoff.record_end(CALM, &ending(false));
        assert_eq!(backoff.pause(), Duration::ZERO);
    }
}
