//! Sink ports: drop and count the frames that are sent to them.

mod spec;

pub use spec::{KIND, Keys, Settings};

use super::{RxQueue, Sent, TxQueue, Wait};
use packet::{Burst, BurstStorage, Frames, Judged};

/// Transmit half that drops everything.
pub struct Sink;

impl TxQueue for Sink {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let bytes = frames.as_slice().iter().map(|f| u64::from(f.len())).sum();
        Sent { frames: frames.len() as u32, bytes, ..Sent::default() }
    }

    fn transmit_judged(&self, judged: Judged<'_>, _: &mut BurstStorage) -> Sent {
        // They are never read.
        self.transmit(judged.frames())
    }
}

/// Receive half that never receives.
pub struct Nothing;

impl RxQueue for Nothing {
    fn receive<'q>(&'q self, _: &mut Burst<'_, 'q>) -> bool {
        false
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Event
    }
}
