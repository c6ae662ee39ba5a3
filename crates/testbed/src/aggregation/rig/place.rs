//! What runs where.
//!
//! Programs that share a processor sleep when there is nothing to do, and the one that is nearer to the end of the chain goes
//! before the others: what is on its way is taken further before anything new comes. Left to themselves they would have the
//! processor for milliseconds in turn, in which many times more packets come than a ring has room for.

use crate::programs::Idle;
use serde::Serialize;

/// Where something runs, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The processor.
    pub cpu: usize,
    /// What it does when there is nothing to do.
    pub idle: Idle,
    /// Before whom it goes, if it shares the processor: before all of lower numbers.
    pub priority: Option<u8>,
}

/// What runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cpus {
    /// The node that sends.
    pub a: Place,
    /// The node that receives.
    pub b: Place,
    /// The network function.
    pub function: Place,
    /// Processor of a program between the nodes, which polls.
    pub link: usize,
}

impl Cpus {
    /// The nodes, the function, and a program between the nodes on these processors. Who has one to itself polls.
    pub fn on([a, b, function, link]: [usize; 4]) -> Cpus {
        let all = [a, b, function];
        let place = |number: usize| {
            let cpu = all[number];
            if all.iter().filter(|other| **other == cpu).count() == 1 {
                return Place { cpu, idle: Idle::Poll, priority: None };
            }
            Place { cpu, idle: Idle::Sleep, priority: Some(number as u8 + 1) }
        };
        Cpus { a: place(0), b: place(1), function: place(2), link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_processor_sleeps_and_the_last_one_goes_first() {
        let Cpus { a, b, function, link } = Cpus::on([1, 0, 0, 2]);
        assert_eq!((a.idle, b.idle, function.idle, link), (Idle::Poll, Idle::Sleep, Idle::Sleep, 2));
        assert_eq!((a.priority, b.priority, function.priority), (None, Some(2), Some(3)));
    }
}
