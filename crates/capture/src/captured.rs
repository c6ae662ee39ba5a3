//! A captured frame.

use std::time::Duration;

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time since 1970.
    pub time: Duration,
    /// Captured bytes, starting with the destination address.
    pub bytes: Vec<u8>,
    /// Length of the frame on the wire, in bytes.
    pub original: u32,
}

impl Captured {
    /// Returns a frame that was captured whole.
    pub fn whole(time: Duration, bytes: Vec<u8>) -> Captured {
        Captured { time, original: bytes.len() as u32, bytes }
    }

    /// Reports whether the frame was longer than its captured part.
    pub fn is_snapped(&self) -> bool {
        (self.bytes.len() as u32) < self.original
    }
}
