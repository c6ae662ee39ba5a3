//! Progress display.

use super::results::Outcome;
use super::scenario::{Contestant, Scenario};
use millrace::terminal::can_redraw;
use std::io::{Write, stderr};

/// A line on standard error that is updated, if that is a terminal which can; and a permanent one per scenario.
pub struct Progress {
    scenarios: usize,
    rounds: u32,
    finished: usize,
    can_redraw: bool,
}

impl Progress {
    /// Creates the display for this amount of work.
    pub fn new(scenarios: usize, rounds: u32) -> Progress {
        Progress { scenarios, rounds, finished: 0, can_redraw: can_redraw(&stderr()) }
    }

    /// Shows the current measurement.
    pub fn step(&self, scenario: Scenario, contestant: Contestant, round: u32) {
        if self.can_redraw {
            let (now, rounds) = (self.finished + 1, self.rounds);
            eprint!("\r\x1b[K[{now}/{}] {scenario}: {contestant}, round {}/{rounds}", self.scenarios, round + 1);
            let _ = stderr().flush();
        }
    }

    /// Prints the result of a scenario.
    pub fn done(&mut self, outcome: &Outcome, contestants: [Contestant; 2]) {
        self.finished += 1;
        let clear = if self.can_redraw { "\r\x1b[K" } else { "" };
        let rates = contestants.map(|contestant| {
            let median = outcome.spread(contestant, |run| Some(run.mpps)).map_or(0.0, |s| s.median);
            format!("{contestant} {median:.2} Mpps")
        });
        eprintln!("{clear}[{}/{}] {}: {}", self.finished, self.scenarios, outcome.scenario, rates.join(", "));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.can_redraw {
            // The next output starts on an empty line.
            eprint!("\r\x1b[K");
        }
    }
}
