//! Numbers of the packets of a flow that have arrived.

use std::collections::VecDeque;
use std::ops::Range;

/// Runs of missing packets that are remembered.
const RUNS: usize = 4096;

/// Most packets that may be missing in a row: a number further on was not sent.
const MOST_IN_A_ROW: u64 = 1 << 32;

/// Place of a packet in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// No packet sent later has arrived.
    InOrder,
    /// A packet sent later has arrived.
    Late,
    /// It has arrived before; or so long after packets sent later that it is not remembered as missing.
    Again,
    /// No such packet can have been sent yet.
    Impossible,
}

/// The receiving end of a flow whose packets are numbered from 0.
#[derive(Debug)]
pub struct Sequence {
    next: u64,
    /// Missing packets below `next`, in order.
    missing: VecDeque<Range<u64>>,
}

impl Sequence {
    /// Creates the end of a flow.
    pub fn new() -> Sequence {
        Sequence { next: 0, missing: VecDeque::with_capacity(RUNS + 1) }
    }

    /// Returns the number after the greatest that has arrived, or that was given up.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Notes an arrival.
    #[inline(always)]
    pub fn note(&mut self, number: u64) -> Arrival {
        if number == self.next {
            self.next += 1;
            return Arrival::InOrder;
        }
        self.note_odd(number)
    }

    #[cold]
    fn note_odd(&mut self, number: u64) -> Arrival {
        if number > self.next.saturating_add(MOST_IN_A_ROW) {
            return Arrival::Impossible;
        }
        if number > self.next {
            self.give_up(number);
            self.next = number + 1;
            return Arrival::InOrder;
        }
        let at = self.missing.partition_point(|run| run.end <= number);
        match self.missing.get(at).cloned() {
            Some(run) if run.contains(&number) => {
                self.missing[at] = run.start..number;
                if number + 1 < run.end {
                    self.missing.insert(at + 1, number + 1..run.end);
                }
                if run.start == number {
                    self.missing.remove(at);
                }
                Arrival::Late
            }
            _ => Arrival::Again,
        }
    }

    /// Expects none of the packets before `number` any more. Those that come after all are late.
    pub fn give_up(&mut self, number: u64) {
        if number > self.next {
            self.missing.push_back(self.next..number);
            if self.missing.len() > RUNS {
                self.missing.pop_front();
            }
            self.next = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::*;

    #[test]
    fn late_packets_are_told_from_those_that_come_again() {
        let mut sequence = Sequence::new();
        let numbers = [0, 1, 5, 3, 3, 2, 4, 4, 0, 6, u64::MAX, 7];
        let arrivals = numbers.map(|number| sequence.note(number));
        let expected = [InOrder, InOrder, InOrder, Late, Again, Late, Late, Again, Again, InOrder, Impossible, InOrder];
        assert_eq!(arrivals, expected);
        assert_eq!(sequence.next(), 8);
        assert!(sequence.missing.is_empty());
    }

    #[test]
    fn packets_given_up_are_late_when_they_come() {
        let mut sequence = Sequence::new();
        sequence.give_up(3);
        assert_eq!([3, 1, 1, 0].map(|number| sequence.note(number)), [InOrder, Late, Again, Late]);
        sequence.give_up(2);
        assert_eq!(sequence.next(), 4);
    }

    #[test]
    fn only_the_last_runs_are_remembered() {
        let mut sequence = Sequence::new();
        (0..10_000).for_each(|number| assert_eq!(sequence.note(2 * number + 1), InOrder));
        assert_eq!(sequence.missing.len(), RUNS);
        assert_eq!([0, 19_998].map(|number| sequence.note(number)), [Again, Late]);
    }

    #[test]
    fn every_order_of_a_few_packets_is_accounted_for() {
        // All orders of 5 packets, each of which may come twice.
        for mut code in 0..5u64.pow(6) {
            let mut sequence = Sequence::new();
            let (mut seen, mut greatest) = ([false; 5], None);
            for _ in 0..6 {
                let number = code % 5;
                code /= 5;
                let expected = match (seen[number as usize], greatest) {
                    (true, _) => Again,
                    (false, Some(greatest)) if number < greatest => Late,
                    (false, _) => InOrder,
                };
                seen[number as usize] = true;
                greatest = greatest.max(Some(number));
                assert_eq!(sequence.note(number), expected);
            }
        }
    }
}
