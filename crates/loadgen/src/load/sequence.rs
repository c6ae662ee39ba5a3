//! Sequence numbers of received frames, which show the missing ones.

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that came back.
    pub received: u64,
    /// Frames that came back changed.
    pub corrupt: u64,
    /// Frames that never came.
    pub lost: u64,
    /// Frames that came twice, or after they were counted as lost.
    pub late: u64,
}

/// The receiving end of a stream of numbered frames.
#[derive(Debug, Default)]
pub struct Sequence {
    next: u64,
    counts: Counts,
}

impl Sequence {
    /// Returns the next number: all earlier frames have arrived or were lost.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Counts a frame.
    #[inline(always)]
    pub fn note(&mut self, number: u64, intact: bool) {
        self.counts.received += 1;
        if number == self.next && intact {
            self.next += 1;
        } else {
            self.note_odd(number, intact);
        }
    }

    /// Counts frames without checking them.
    #[inline(always)]
    pub fn skip(&mut self, count: u64) {
        self.counts.received += count;
        self.next += count;
    }

    /// Counts a frame that is not the expected one.
    #[cold]
    fn note_odd(&mut self, number: u64, intact: bool) {
        if !intact {
            // Its number is unreliable; count it as the expected one.
            self.counts.corrupt += 1;
            self.next += 1;
        } else if number < self.next {
            self.counts.late += 1;
        } else {
            self.counts.lost += number - self.next;
            self.next = number + 1;
        }
    }

    /// Counts all missing frames before `number` as lost.
    pub fn give_up(&mut self, number: u64) {
        self.counts.lost += number.saturating_sub(self.next);
        self.next = self.next.max(number);
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
