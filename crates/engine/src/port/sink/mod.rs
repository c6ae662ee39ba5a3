//! Sink ports: drop and count the frames that are sent to them.

mod spec;

pub use spec::{KIND, Keys, Settings};

use super::{HoldBursts, RxQueue, Sent, TxQueue, Wait};
use packet::{Burst, BurstStorage, Frames, Judged, Mapped};
use std::sync::Arc;

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

/// Receive half that never receives: for ports that only transmit.
pub struct Nothing;

impl RxQueue for Nothing {
    fn receive<'q>(&'q self, _: &mut Burst<'_, 'q>) -> bool {
        false
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Event
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

impl HoldBursts for Nothing {
    fn memories(&self) -> Vec<Arc<dyn Mapped>> {
        Vec::new()
    }

    fn buffers(&self) -> usize {
        usize::MAX
    }

    fn hold(&self, _: &mut Vec<u16>) {}

    fn give_back(&self, _: &[u16]) {}
}
