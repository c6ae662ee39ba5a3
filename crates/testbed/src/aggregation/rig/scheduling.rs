//! Placement of programs on processors.
//!
//! Programs that share a processor sleep when idle, and the one nearer to the end of the chain has precedence: packets in
//! flight advance before new ones arrive. Left to the scheduler, each would run for milliseconds in turn, in which many times
//! more packets arrive than a ring can hold.

use crate::millrace::Idle;
use serde::Serialize;

/// Processor and scheduling of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Scheduling {
    /// The processor.
    pub cpu: usize,
    /// Idle behaviour.
    pub idle: Idle,
    /// Priority, if it shares the processor: it precedes all lower numbers.
    pub priority: Option<u8>,
}

/// Placement of all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cpus {
    /// The sending node.
    pub a: Scheduling,
    /// The receiving node.
    pub b: Scheduling,
    /// The network function.
    pub function: Scheduling,
    /// Processor of a program between the nodes, which polls.
    pub link: usize,
}

impl Cpus {
    /// Places the nodes, the function, and a program between the nodes on these processors. A program that does not share its
    /// processor polls.
    pub fn on([a, b, function, link]: [usize; 4]) -> Cpus {
        let all = [a, b, function];
        let scheduling = |number: usize| {
            let cpu = all[number];
            if all.iter().filter(|other| **other == cpu).count() == 1 {
                return Scheduling { cpu, idle: Idle::Poll, priority: None };
            }
            Scheduling { cpu, idle: Idle::Sleep, priority: Some(number as u8 + 1) }
        };
        Cpus { a: scheduling(0), b: scheduling(1), function: scheduling(2), link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_share_a_processor_sleep_and_the_last_has_precedence() {
        let Cpus { a, b, function, link } = Cpus::on([1, 0, 0, 2]);
        assert_eq!((a.idle, b.idle, function.idle, link), (Idle::Poll, Idle::Sleep, Idle::Sleep, 2));
        assert_eq!((a.priority, b.priority, function.priority), (None, Some(2), Some(3)));
    }
}
