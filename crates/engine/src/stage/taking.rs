//! Frames whose heads are taken once, for stages that copy them elsewhere, or decide by them, and pass them on: all see the
//! same bytes.

use crate::drops::{Drops, Reason};
use packet::{Burst, BurstStorage, Frames, Heads};
use std::sync::Arc;

/// See the module.
pub(crate) struct Taking {
    heads: Box<Heads>,
    storage: Box<BurstStorage>,
    drops: Arc<Drops>,
}

impl Taking {
    /// Returns room for a burst. Frames with too many segments for it are dropped.
    pub(crate) fn new(drops: Arc<Drops>) -> Taking {
        Taking { heads: Box::default(), storage: Box::default(), drops }
    }

    /// Returns the frames, each as its head, taken now, and the rest. Their chains can't be kept.
    pub(crate) fn take<'s>(&'s mut self, frames: Frames<'s>) -> Burst<'s, 's> {
        let mut burst = self.storage.start();
        let refused = frames.judge_heads(&mut self.heads).add_to(&mut burst);
        if refused > 0 {
            self.drops.add(Reason::TooLong, refused.into());
        }
        burst
    }
}
