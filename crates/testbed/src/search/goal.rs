//! Goals of a search: conditions for a rate to count as carried.

/// Number of phases in which a goal is approached: from short trials and coarse bounds to those of the goal.
pub const PHASES: usize = 3;

/// A search goal (RFC 9971). A rate is a lower bound if at most the exceed ratio of `sum` seconds of trials lost more than
/// the loss ratio, and else an upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Goal loss ratio: a trial that loses a greater share of its packets is a high-loss trial.
    pub loss: f64,
    /// Goal exceed ratio: share of the seconds of trials at a rate that high-loss trials may have. 0: one of these is enough for
    /// an upper bound. 0.5: single bursts of loss do not count. Less than 1.
    pub exceed: f64,
    /// Goal initial trial duration: seconds of the first trials.
    pub initial: f64,
    /// Goal final trial duration: seconds of the trials that decide.
    pub seconds: f64,
    /// Goal duration sum: seconds of trials of this duration that decide in any case.
    pub sum: f64,
    /// Goal width: greatest difference of the upper bound and the lower one, as a share of the upper one. At least the loss
    /// ratio, or else a goal with less loss could seem to let more packets through; and above 0.
    pub width: f64,
}

impl Goal {
    /// The greatest rate without loss: no-drop rate.
    pub const NDR: Goal = Goal { loss: 0.0, exceed: 0.5, initial: 0.2, seconds: 1.0, sum: 5.0, width: 0.01 };
    /// The greatest rate with a loss of at most 0.5 %: partial-drop rate.
    pub const PDR: Goal = Goal { loss: 0.005, ..Goal::NDR };
    /// The throughput of RFC 2544 §26.1, with the trials of its §24.
    pub const RFC2544: Goal = Goal { loss: 0.0, exceed: 0.0, initial: 1.0, seconds: 60.0, sum: 60.0, width: 0.01 };

    /// Returns the goal of one phase, with durations that grow, and widths that halve, from phase to phase. In the first one a
    /// single trial decides.
    pub fn of_phase(&self, phase: usize) -> Goal {
        let left = PHASES.saturating_sub(phase + 1);
        if left == 0 {
            return *self;
        }
        let between =
            |last: f64| self.initial * (last / self.initial).max(1.0).powf(phase as f64 / (PHASES - 1) as f64);
        let width = (self.width * f64::from(1 << left)).min(0.5);
        Goal { seconds: between(self.seconds), sum: between(self.sum), width, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_go_from_one_short_trial_to_the_goal() {
        let [first, second, last] = [0, 1, 2].map(|phase| Goal::PDR.of_phase(phase));
        assert_eq!((first.seconds, first.sum, first.width, first.loss), (0.2, 0.2, 0.04, 0.005));
        assert!(first.seconds < second.seconds && second.seconds < last.seconds && second.sum < last.sum);
        assert_eq!((last, second.width), (Goal::PDR, 0.02));
    }
}
