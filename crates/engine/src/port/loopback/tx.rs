//! Transmission: frames go back to the switch.

use super::Loop;
use crate::drops::Reason;
use crate::port::{Sent, TxQueue};
use handover::Punt;
use packet::{Frames, MAX_FRAME};
use std::cell::RefCell;
use std::sync::Arc;

/// Transmit half of a loopback port.
pub struct LoopbackTransmit {
    frames: Arc<Loop>,
    /// A frame on its way to the ring.
    frame: RefCell<Box<[u8]>>,
}

impl LoopbackTransmit {
    pub(super) fn new(frames: Arc<Loop>) -> LoopbackTransmit {
        LoopbackTransmit { frames, frame: RefCell::new(vec![0; MAX_FRAME as usize].into()) }
    }
}

impl TxQueue for LoopbackTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let bytes = &mut *self.frame.borrow_mut();
        let mut sent = Sent { rest: Some(Reason::Busy), ..Sent::default() };
        for frame in frames.as_slice() {
            let len = frames.copy_to(frame, bytes);
            if !self.frames.ring.push(&Punt { total: frame.len(), ..Punt::default() }, &bytes[..len]) {
                break;
            }
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        sent
    }

    fn notify(&self) {
        self.frames.notifier.notify();
    }
}
