//! Reception from a tap.

use crate::port::interface::readable;
use crate::port::{RxQueue, Wait};
use netdev::TapQueue;
use packet::{Buffers, Burst, MAX_BURST, MIN_FRAME};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Buffer size for a frame read from a tap: a jumbo frame and its tag.
const TAP_ROOM: usize = 9216 + 18;

/// Receive half of a tap.
pub struct TapReceive {
    queue: Arc<TapQueue>,
    buffers: Buffers,
}

impl TapReceive {
    /// Returns a half that reads from `queue`.
    pub fn new(queue: Arc<TapQueue>) -> TapReceive {
        TapReceive { queue, buffers: Buffers::new(MAX_BURST, TAP_ROOM) }
    }
}

impl RxQueue for TapReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        while burst.room() > 0 && self.buffers.push(burst, |bytes| self.queue.read(bytes).ok().flatten()) {}
        burst.retain(|_, frame| frame.len() >= MIN_FRAME);
        !burst.is_empty()
    }

    fn recycle(&self) {
        self.buffers.release();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.as_fd())
    }

    fn arm(&self) -> Wait {
        readable(self.queue.as_fd())
    }
}
