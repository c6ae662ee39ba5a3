//! Transmission to a tap.
//!
//! This module uses `unsafe`: frames lie in memory that others may change, so they are passed to the kernel as raw
//! segments, never as slices.
#![allow(unsafe_code)]

use crate::drops::Reason;
use crate::port::interface::raw;
use crate::port::{Sent, TxQueue};
use netdev::{RawSegment, TapQueue, TapWrite};
use packet::Frames;
use packet::offload::{Offloads, header};
use std::cell::Cell;
use std::sync::Arc;

/// Transmit half of a tap.
pub struct TapTransmit {
    queue: Arc<TapQueue>,
    segments: Cell<Vec<RawSegment>>,
}

impl TapTransmit {
    /// Returns a half that writes to `queue`.
    pub fn new(queue: Arc<TapQueue>) -> TapTransmit {
        TapTransmit { queue, segments: Cell::default() }
    }
}

impl TxQueue for TapTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut segments = self.segments.take();
        let has_headers = !self.queue.offloads().is_none();
        for frame in frames.as_slice() {
            let header = header::write(frame.offload());
            let header = has_headers.then(|| RawSegment::from(&header[..]));
            // SAFETY: the segments are mapped as long as `frames` borrows them, and the header lives until the next frame.
            match unsafe { self.queue.write_raw(raw(header, &frames, frame, &mut segments)) } {
                Ok(TapWrite::Sent) => {
                    sent.frames += 1;
                    sent.bytes += u64::from(frame.len());
                }
                Ok(TapWrite::Busy) => {
                    sent.rest = Some(Reason::Busy);
                    break;
                }
                Ok(TapWrite::Down) | Err(_) => {
                    sent.rest = Some(Reason::Down);
                    break;
                }
                Ok(TapWrite::Malformed | TapWrite::Fault) => sent.refused += 1,
            }
        }
        self.segments.set(segments);
        sent
    }

    fn takes(&self) -> Offloads {
        self.queue.offloads()
    }
}
