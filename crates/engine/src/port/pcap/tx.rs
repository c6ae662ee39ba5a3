//! Recording to a capture file.

use crate::port::record::Recorder;
use crate::port::{Sent, TxQueue};
use packet::Frames;

/// Transmit half that records frames to a file.
pub struct Record(pub Recorder);

impl TxQueue for Record {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let taken = self.0.write(frames);
        let bytes = frames.as_slice()[..taken.frames].iter().map(|f| u64::from(f.len())).sum();
        Sent { frames: taken.frames as u32, bytes, rest: taken.refused, ..Sent::default() }
    }
}
