//! The account of a step: tests that ran, and the cost of each program.

use crate::cost::Cost;
use std::time::Duration;

/// Tests that ran, as `cargo test` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    pub passed: u64,
    pub failed: u64,
}

impl std::iter::Sum for Tests {
    fn sum<I: Iterator<Item = Tests>>(all: I) -> Tests {
        all.fold(Tests::default(), |a, b| Tests { passed: a.passed + b.passed, failed: a.failed + b.failed })
    }
}

impl Tests {
    /// Parses a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn parse(line: &str) -> Option<Tests> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Tests { passed: count("passed")?, failed: count("failed")? })
    }
}

/// The tests run so far, and the cost of each program.
#[derive(Default)]
pub struct Account {
    pub tests: Tests,
    pub costs: Vec<(String, Cost)>,
}

impl Account {
    /// Counts the tests that a line of a program's output names.
    pub fn count(&mut self, line: &str) {
        if let Some(now) = Tests::parse(line) {
            self.tests = [self.tests, now].into_iter().sum();
        }
    }

    /// Returns the processor time of all programs.
    pub fn processor_time(&self) -> Duration {
        self.costs.iter().map(|(_, cost)| cost.processor_time()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(Tests::parse(line), Some(Tests { passed: 12, failed: 3 }));
        let line = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s";
        assert_eq!(Tests::parse(line), Some(Tests::default()));
        assert_eq!(Tests::parse("test copy ... ok"), None);
    }
}
