//! Reception of the frames that were sent to the port.

use super::Loop;
use crate::port::{RxQueue, Wait};
use packet::{Buffers, Burst, MAX_BURST, MAX_FRAME};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Receive half of a loopback port.
pub struct LoopbackReceive {
    frames: Arc<Loop>,
    buffers: Buffers,
    /// A frame on its way from the ring to a buffer.
    frame: RefCell<Vec<u8>>,
}

impl LoopbackReceive {
    pub(super) fn new(frames: Arc<Loop>) -> LoopbackReceive {
        let frame = RefCell::new(Vec::with_capacity(MAX_FRAME as usize + 8));
        LoopbackReceive { frames, buffers: Buffers::new(MAX_BURST, MAX_FRAME as usize), frame }
    }
}

impl RxQueue for LoopbackReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let frame = &mut *self.frame.borrow_mut();
        let mut take = |bytes: &mut [u8]| {
            self.frames.ring.pop(frame)?;
            bytes[..frame.len()].copy_from_slice(frame);
            Some(frame.len())
        };
        while burst.room() > 0 && self.buffers.push(burst, &mut take) {}
        !burst.is_empty()
    }

    fn recycle(&self) {
        self.buffers.release();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.frames.notifier.fd().as_fd())
    }

    fn arm(&self) -> Wait {
        self.frames.notifier.clear();
        if self.frames.ring.waiting() > 0 { Wait::Ready } else { Wait::Event }
    }
}
