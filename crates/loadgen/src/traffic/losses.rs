//! Lost packets, and the lengths of runs of them.

use std::collections::BTreeMap;

/// The receiving end of a stream of numbered packets that stay in order.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    first: u64,
    next: u64,
    received: u64,
    late: u64,
    runs: BTreeMap<u64, u64>,
}

impl Losses {
    /// Starts a stream at this number.
    pub fn from(next: u64) -> Losses {
        Losses { first: next, next, ..Losses::default() }
    }

    /// Records a packet, unless it is of an earlier stream; tells whether it did.
    #[inline(always)]
    pub fn note(&mut self, number: u64) -> bool {
        if number == self.next {
            self.next += 1;
            self.received += 1;
            true
        } else {
            self.note_odd(number)
        }
    }

    #[cold]
    fn note_odd(&mut self, number: u64) -> bool {
        if number < self.first {
            // It was longer on its way than anybody waited for it.
            return false;
        }
        if number < self.next {
            self.late += 1;
            return true;
        }
        self.end(number);
        self.next = number + 1;
        self.received += 1;
        true
    }

    /// Records that nothing before this number will arrive any more.
    pub fn end(&mut self, number: u64) {
        if number > self.next {
            *self.runs.entry(number - self.next).or_default() += 1;
            self.next = number;
        }
    }

    /// Returns the number of packets received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of packets that came twice, or after a later one.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of lost packets.
    pub fn lost(&self) -> u64 {
        self.runs.iter().map(|(length, count)| length * count).sum()
    }

    /// Returns the number of runs of lost packets, by length.
    pub fn runs(&self) -> &BTreeMap<u64, u64> {
        &self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_the_gaps() {
        let mut losses = Losses::from(10);
        [10, 11, 13, 16, 17, 19].into_iter().for_each(|number| assert!(losses.note(number)));
        losses.end(22);
        assert_eq!(losses.runs(), &[(1, 2), (2, 2)].into());
        assert_eq!((losses.received(), losses.lost(), losses.late()), (6, 6, 0));
    }

    #[test]
    fn packets_of_an_earlier_stream_are_not_of_this_one() {
        let mut losses = Losses::from(10);
        assert_eq!([8, 10, 9, 11, 10].map(|number| losses.note(number)), [false, true, false, true, true]);
        losses.end(12);
        assert_eq!((losses.received(), losses.lost(), losses.late()), (2, 0, 1));
    }

    #[test]
    fn late_packets_are_lost_and_not_received() {
        let mut losses = Losses::default();
        [0, 2, 1, 2, 3].into_iter().for_each(|number| assert!(losses.note(number)));
        losses.end(4);
        assert_eq!((losses.received(), losses.lost(), losses.late()), (3, 1, 2));
    }
}
