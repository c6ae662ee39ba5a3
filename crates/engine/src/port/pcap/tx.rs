//! Recording to a capture file.

use crate::drops::Reason;
use crate::port::record::Recorder;
use crate::port::{Sent, TxQueue};
use packet::Frames;

/// Transmit half that records frames to a file.
pub struct Record(pub Recorder);

impl TxQueue for Record {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let written = self.0.write(frames);
        let bytes = frames.as_slice()[..written].iter().map(|f| u64::from(f.len())).sum();
        Sent { frames: written as u32, bytes, rest: Some(Reason::Refused), ..Sent::default() }
    }
}
