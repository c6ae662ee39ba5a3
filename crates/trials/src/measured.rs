//! A queue's part in the trials of its group.

use super::trial::Burst;
use super::trials::Trials;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

/// Bursts after which a queue asks for a trial.
const ASK: u32 = 1 << 7;

/// A queue whose bursts are timed during trials: a worker calls [`Measured::begin`], [`Measured::received`] and [`Measured::end`] for
/// each burst.
pub struct Measured {
    trials: Arc<Trials>,
    /// Bursts until it asks for the next trial.
    left: Cell<u32>,
    burst: Cell<Option<Received>>,
    /// Bursts of a trial that are not counted yet, as another queue was counting its own.
    uncounted: Cell<Option<Burst>>,
}

/// A burst that was received, and not yet returned.
#[derive(Clone, Copy)]
struct Received {
    frames: u32,
    bytes: u64,
    began: Option<Instant>,
}

impl Measured {
    /// Returns the part of a queue in these trials.
    pub fn new(trials: Arc<Trials>) -> Measured {
        Measured { trials, left: Cell::new(ASK), burst: Cell::default(), uncounted: Cell::default() }
    }

    /// Returns the time before a burst is received, if that matters.
    #[inline(always)]
    pub fn begin(&self) -> Option<Instant> {
        self.trials.is_trying().then(Instant::now)
    }

    /// Notes a burst that was received.
    #[inline(always)]
    pub fn received(&self, frames: usize, bytes: u64, began: Option<Instant>) {
        self.burst.set((frames > 0).then_some(Received { frames: frames as u32, bytes, began }));
    }

    /// Ends a burst, `direct` frames of which were forwarded without a copy.
    #[inline(always)]
    pub fn end(&self, direct: u32) {
        let Some(Received { frames, bytes, began }) = self.burst.take() else { return };
        if let Some(began) = began {
            let ended = Instant::now();
            return self.count(Burst { frames, bytes, direct, began, ended, work: ended - began });
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.left.set(ASK);
            self.uncounted.set(None);
            self.trials.begin(frames, bytes, Instant::now());
        }
    }

    #[cold]
    fn count(&self, burst: Burst) {
        let burst = self.uncounted.take().map_or(burst, |earlier| burst.after(earlier));
        if !self.trials.add(burst) {
            self.uncounted.set(Some(burst));
        }
    }
}
