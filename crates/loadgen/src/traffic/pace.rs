//! Due times of packets: at equal intervals, singly or in trains.

/// A rate that is kept whatever happens to the packets.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Cycle count at which the first train is due.
    start: u64,
    trains_a_cycle: f64,
    /// Packets of a train.
    train: u64,
    /// Packets due before `start`.
    before: u64,
}

impl Pace {
    /// Creates a pace of `rate` packets per second from the cycle `start` on, in trains of `train`; `hz` is the counter's
    /// frequency.
    pub fn new(start: u64, rate: f64, hz: f64, train: u16) -> Pace {
        let train = u64::from(train.max(1));
        Pace { start, trains_a_cycle: rate / hz / train as f64, train, before: 0 }
    }

    /// Continues the count from `before`, a number of whole trains.
    pub fn after(self, before: u64) -> Pace {
        Pace { before, ..self }
    }

    /// Returns the number of packets due until `now`: whole trains, the first one at once.
    #[inline(always)]
    pub fn due(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start) as f64;
        self.before + ((elapsed * self.trains_a_cycle) as u64 + 1) * self.train
    }

    /// Continues `cycles` later: the sender was not running, and the packets due then must not form a train.
    pub fn postpone(&mut self, cycles: u64) {
        self.start += cycles;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_packets_are_due_one_by_one() {
        // A million per second, with a counter at 1 GHz.
        let pace = Pace::new(5_000, 1e6, 1e9, 1);
        let due: Vec<u64> = [0, 5_000, 5_999, 6_001, 7_001, 1_000_005_001].map(|now| pace.due(now)).into();
        assert_eq!(due, [1, 1, 1, 2, 3, 1_000_001]);
    }

    #[test]
    fn trains_are_due_as_a_whole_at_the_same_rate() {
        let pace = Pace::new(0, 1e6, 1e9, 32);
        assert_eq!([0, 31_999, 32_001, 64_001].map(|now| pace.due(now)), [32, 32, 64, 96]);
        assert_eq!(pace.due(320_000_001), 320_032);
    }

    #[test]
    fn what_was_due_in_a_pause_is_never_due() {
        let mut pace = Pace::new(0, 1e6, 1e9, 1);
        assert_eq!(pace.due(10_001), 11);
        pace.postpone(50_000);
        assert_eq!(pace.due(60_001), 11);
        assert_eq!(pace.due(61_001), 12);
    }
}
