//! Writer of the classic format.

use crate::link_type::ETHERNET;
use crate::pcap::{FILE_HEADER, NANOSECONDS, PACKET_HEADER};
use std::io::{Result, Write};
use std::time::Duration;

/// Returns the header of a file in which no frame is longer than `longest` bytes: version 2.4, little-endian, with nanoseconds.
pub fn file_header(longest: u32) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&NANOSECONDS.to_le_bytes());
    header[4..8].copy_from_slice(&[2, 0, 4, 0]);
    // Eight reserved bytes follow.
    header[16..20].copy_from_slice(&longest.to_le_bytes());
    header[20..].copy_from_slice(&u32::from(ETHERNET).to_le_bytes());
    header
}

/// Returns the header of a frame of `length` bytes that was seen at `time` since 1970. The frame follows it.
pub fn packet_header(time: Duration, length: u32) -> [u8; PACKET_HEADER] {
    let mut header = [0; PACKET_HEADER];
    // The format has 32 bits for seconds, which last until 2106.
    let words = [time.as_secs() as u32, time.subsec_nanos(), length, length];
    for (place, word) in header.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// Returns the length of the first packet of `bytes` with its header, if these hold all of the header.
pub fn packet_end(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(8..PACKET_HEADER)?.first_chunk()?;
    Some(PACKET_HEADER + u32::from_le_bytes(*length) as usize)
}

/// A pcap file of Ethernet frames.
#[derive(Debug)]
pub struct Writer<W: Write>(W);

impl<W: Write> Writer<W> {
    /// Starts a file in which no frame is longer than `longest` bytes.
    pub fn new(mut file: W, longest: u32) -> Result<Writer<W>> {
        file.write_all(&file_header(longest))?;
        Ok(Writer(file))
    }

    /// Adds a frame seen at `time` since 1970.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> Result<()> {
        self.0.write_all(&packet_header(time, frame.len() as u32))?;
        self.0.write_all(frame)
    }

    /// Flushes all written bytes to the file.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}
