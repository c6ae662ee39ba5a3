//! Transmission to an interface by AF_PACKET rings.
//!
//! This module uses `unsafe`: frames lie in memory that others may change, so they are passed to the kernel as raw
//! segments, never as slices.
#![allow(unsafe_code)]

use crate::drops::Reason;
use crate::port::interface::raw;
use crate::port::{Sent, TxQueue};
use netdev::{PacketTx, PushError, RawSegment};
use packet::Frames;
use packet::offload::Offloads;
use std::cell::Cell;

/// Transmit half of an interface.
pub struct PacketTransmit {
    ring: PacketTx,
    segments: Cell<Vec<RawSegment>>,
}

impl PacketTransmit {
    /// Returns a half that puts frames into `ring`.
    pub fn new(ring: PacketTx) -> PacketTransmit {
        PacketTransmit { ring, segments: Cell::default() }
    }
}

impl TxQueue for PacketTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut segments = self.segments.take();
        for frame in frames.as_slice() {
            // SAFETY: the segments are mapped as long as `frames` borrows them; the bytes are copied before it ends.
            match unsafe { self.ring.push_raw(frame.offload(), raw(None, &frames, frame, &mut segments)) } {
                Ok(()) => {
                    sent.frames += 1;
                    sent.bytes += u64::from(frame.len());
                }
                Err(PushError::TooLong { .. }) => sent.too_long += 1,
                Err(PushError::TooShort { .. }) => sent.refused += 1,
                Err(PushError::Full) => {
                    sent.rest = Some(Reason::Busy);
                    break;
                }
            }
        }
        self.segments.set(segments);
        match self.ring.flush() {
            Ok(flushed) => {
                // These may be of earlier bursts, but each is counted once.
                let failed = ((flushed.wrong_format + flushed.refused) as u32).min(sent.frames);
                sent.frames -= failed;
                sent.refused += failed;
                let lost = (flushed.link_down as u32).min(sent.frames);
                if lost > 0 {
                    sent.frames -= lost;
                    sent.rest = Some(Reason::Down);
                }
            }
            Err(_) => return Sent::none(Reason::Down),
        }
        sent
    }

    fn takes(&self) -> Offloads {
        self.ring.offloads()
    }

    /// None: a program at the other end of a virtual cable, as one of DPDK's, may read frames of the MTU only.
    fn longest_merged(&self) -> u32 {
        0
    }
}
