//! How soon the next session may begin, and what is said about the last one.
//!
//! A frontend that is refused tends to come back at once, thousands of times per second, each time for the same reason. Each
//! session costs us more than it costs the frontend, and each line the disk. So sessions that end as soon as they began make
//! the next one wait, longer each time; a guest that ran for a while comes back without waiting.

use super::session::Ending;
use std::time::Duration;

/// A session that lasted for so long was one.
const CALM: Duration = Duration::from_secs(1);

const SHORTEST: Duration = Duration::from_millis(1);

/// Longest pause after a frontend that left by itself, as one does that is started again and again.
const LONGEST_LEFT: Duration = Duration::from_millis(20);

/// Longest pause after one that broke the rules or was disconnected.
const LONGEST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Backoff {
    pause: Duration,
    /// Why the last session ended, and how many in a row did so.
    last: Option<(String, u64)>,
}

impl Backoff {
    /// Notes how a session ended. Returns what there is to say about it, unless that was said before: of the same end,
    /// only the first one, the second, the fourth and so on are worth a line.
    pub(super) fn ended(&mut self, lasted: Duration, ending: &Ending) -> Option<String> {
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

    /// How long the next session has to wait.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Nothing was wrong with the last session.
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
    fn liars_wait_longer_each_time_and_are_told_of_less_and_less() {
        let mut backoff = Backoff::default();
        let mut waited = Duration::ZERO;
        let mut lines = 0;
        for _ in 0..20 {
            lines += usize::from(backoff.ended(SHORTEST, &ending(false)).is_some());
            assert!(backoff.pause() > waited || backoff.pause() == LONGEST);
            waited = backoff.pause();
        }
        assert_eq!((waited, lines), (LONGEST, 5));
        assert!(backoff.ended(SHORTEST, &ending(true)).is_some(), "another reason");
    }

    #[test]
    fn who_leaves_waits_hardly_and_who_stayed_not_at_all() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(), Duration::ZERO);
        for _ in 0..20 {
            backoff.ended(SHORTEST, &ending(true));
        }
        assert_eq!(backoff.pause(), LONGEST_LEFT);
        backoff.ended(SHORTEST, &ending(false));
        backoff.ended(CALM, &ending(false));
        assert_eq!(backoff.pause(), Duration::ZERO);
    }
}
