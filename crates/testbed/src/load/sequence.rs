//! Frames are numbered: what comes in tells what did not.

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that came back.
    pub received: u64,
    /// Frames that are not as they were sent.
    pub corrupt: u64,
    /// Frames that never came.
    pub lost: u64,
    /// Frames that came twice, or after they were taken for lost.
    pub late: u64,
}

/// One stream of numbered frames, at its end.
#[derive(Debug, Default)]
pub struct Sequence {
    next: u64,
    counts: Counts,
}

impl Sequence {
    /// The number that comes next: all before it came or were lost.
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

    /// Counts frames that were not looked at.
    #[inline(always)]
    pub fn skip(&mut self, count: u64) {
        self.counts.received += count;
        self.next += count;
    }

    /// Counts a frame that is not the one that was expected.
    #[cold]
    fn note_odd(&mut self, number: u64, intact: bool) {
        if !intact {
            // Its number is worth nothing; it fills the place of the one expected.
            self.counts.corrupt += 1;
            self.next += 1;
        } else if number < self.next {
            self.counts.late += 1;
        } else {
            self.counts.lost += number - self.next;
            self.next = number + 1;
        }
    }

    /// Gives up on everything before `number` that has not come.
    pub fn give_up(&mut self, number: u64) {
        self.counts.lost += number.saturating_sub(self.next);
        self.next = self.next.max(number);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
