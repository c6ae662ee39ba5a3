//! Work on each frame, for measurements of how workers share it.

use super::ingress::{IngressStage, Next};
use crate::clock::Cycles;
use packet::Burst;
use std::hint::spin_loop;

/// Takes some cycles for each frame, and reads it.
pub(crate) struct Work {
    cycles: Cycles,
    each: u64,
}

impl Work {
    /// Name of the stage.
    pub(crate) const NAME: &str = "work";

    /// Returns a stage that takes `each` cycles for each frame.
    pub(crate) fn new(each: u64) -> Work {
        Work { cycles: Cycles::new(), each }
    }
}

impl IngressStage for Work {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>) {
        let frames = burst.frames();
        for frame in frames.as_slice() {
            let began = self.cycles.now();
            std::hint::black_box(frames.ethernet(frame));
            while self.cycles.now().wrapping_sub(began) < self.each {
                spin_loop();
            }
        }
        next.pass(burst);
    }
}
