//! Writer of the classic format.

use crate::link_type::ETHERNET;
use std::io::{Result, Write};
use std::time::Duration;

/// Magic number of a little-endian file with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;

/// A pcap file of Ethernet frames.
#[derive(Debug)]
pub struct Writer<W: Write>(W);

impl<W: Write> Writer<W> {
    /// Starts a file in which no frame is longer than `longest` bytes.
    pub fn new(mut file: W, longest: u32) -> Result<Writer<W>> {
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_le_bytes());
        header.extend([2, 0, 4, 0]);
        // Two reserved words.
        header.extend([0; 8]);
        header.extend(longest.to_le_bytes());
        header.extend(u32::from(ETHERNET).to_le_bytes());
        file.write_all(&header)?;
        Ok(Writer(file))
    }

    /// Adds a frame seen at `time` since 1970.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> Result<()> {
        let len = frame.len() as u32;
        // The format has 32 bits for seconds, which last until 2106.
        let words = [time.as_secs() as u32, time.subsec_nanos(), len, len];
        let mut header = [0; 16];
        for (place, word) in header.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.0.write_all(&header)?;
        self.0.write_all(frame)
    }

    /// Flushes all written bytes to the file.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}
