//! The threshold of a queue whose function sends to others of its group, measured while it runs.

use super::group::Group;
use super::threshold::{Burst, Threshold};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// A queue's threshold, and the burst that it is about to learn from.
pub(crate) struct Measured {
    group: Arc<Group>,
    threshold: RefCell<Threshold>,
    burst: Cell<Option<Received>>,
}

/// A burst that was received, and not yet returned.
#[derive(Clone, Copy)]
struct Received {
    frames: u32,
    bytes: u64,
    began: Option<Instant>,
}

impl Measured {
    /// Returns the threshold of a queue of a port that begins with what the port's queues found before.
    pub(crate) fn new(group: Arc<Group>, port: u16) -> Measured {
        let threshold = RefCell::new(Threshold::new(group.threshold(port)));
        Measured { group, threshold, burst: Cell::default() }
    }

    /// Returns the time before a burst is received, if that matters.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.threshold.borrow().is_trying().then(Instant::now)
    }

    /// Notes what was received.
    #[inline(always)]
    pub(crate) fn received(&self, frames: usize, bytes: u64, began: Option<Instant>) {
        self.burst.set((frames > 0).then_some(Received { frames: frames as u32, bytes, began }));
    }

    /// Ends a burst whose chains were returned, `exchanged` of them with another buffer. Returns the length from which frames are
    /// exchanged from now on, if it may have changed, and the length from which that was found to be better, if a trial ends.
    #[inline(always)]
    pub(crate) fn end(&self, exchanged: u32) -> Option<(u32, Option<u32>)> {
        let Received { frames, bytes, began } = self.burst.take()?;
        let mut threshold = self.threshold.borrow_mut();
        let changed = match began {
            Some(began) => threshold.try_burst(Burst { frames, bytes, exchanged, began, took: began.elapsed() }),
            None => threshold.pass() && threshold.begin(frames, bytes, || self.group.turns().take(Instant::now())),
        };
        changed.then(|| (threshold.now(), (!threshold.is_trying()).then(|| threshold.found())))
    }
}
