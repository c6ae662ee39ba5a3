//! Pacing of generated frames: how many at a time, and how many per second.

use super::Wait;
use std::cell::Cell;
use std::time::{Duration, Instant};

const SECOND: u128 = 1_000_000_000;

/// Rate at which frames are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Frames per second; zero for no limit.
    pub rate: u64,
    /// Frames made at once, if there is a rate; zero means one.
    pub burst: u32,
}

/// Limit on frames that may be made.
pub struct Pacer {
    pace: Pace,
    begun: Instant,
    made: Cell<u64>,
}

impl Pacer {
    /// Starts counting time now.
    pub fn new(pace: Pace) -> Pacer {
        Pacer { pace, begun: Instant::now(), made: Cell::new(0) }
    }

    /// Returns how many frames may be made now; the caller reports those made by [`Pacer::made`].
    #[inline]
    pub fn due(&self) -> u64 {
        let Pace { rate, burst } = self.pace;
        if rate == 0 {
            return u64::MAX;
        }
        let due = (self.begun.elapsed().as_nanos() * u128::from(rate) / SECOND) as u64;
        // After a long pause, a port does not make up for it in one go.
        let behind = due.saturating_sub(self.made.get());
        if behind > rate.max(1000) {
            self.made.set(due - rate.min(due));
        }
        let burst = u64::from(burst.max(1));
        (due / burst * burst).saturating_sub(self.made.get())
    }

    /// Counts `count` frames as made.
    #[inline]
    pub fn made(&self, count: u64) {
        self.made.set(self.made.get() + count);
    }

    /// Returns how long to wait until frames are due.
    pub fn wait(&self) -> Wait {
        let Pace { rate, burst } = self.pace;
        if rate == 0 {
            return Wait::Ready;
        }
        Wait::Time(Duration::from_nanos((SECOND * u128::from(burst.max(1)) / u128::from(rate)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_bursts_and_no_faster_than_told() {
        let pacer = Pacer::new(Pace { rate: 10_000, burst: 32 });
        let mut all = 0;
        while all < 32 || pacer.begun.elapsed() < Duration::from_millis(50) {
            let due = pacer.due();
            assert_eq!(due % 32, 0);
            // Made in two steps, to the same effect.
            pacer.made(due / 2);
            assert!(pacer.due() >= due / 2);
            pacer.made(due / 2);
            all += due;
        }
        assert!(all <= (pacer.begun.elapsed().as_micros() / 100) as u64, "{all}");
        assert!(all >= 32, "{all}");
        assert_eq!(pacer.wait(), Wait::Time(Duration::from_micros(3200)));
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let pacer = Pacer::new(Pace::default());
        assert_eq!((pacer.due(), pacer.wait()), (u64::MAX, Wait::Ready));
    }
}
