//! Reader of both formats.

use crate::captured::Captured;
use crate::error::{Error, LONGEST};
use crate::link_type;
use crate::pcapng::Section;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapBlock, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Bytes to read at once.
const BUFFER: usize = 1 << 16;

/// The frames of a capture file, in order. The iterator ends after an error.
pub struct Reader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    /// Present size of the reader's buffer in bytes.
    buffer: usize,
    nanoseconds: bool,
    section: Section,
    ended: bool,
}

impl Reader {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        Reader::new(File::open(path)?)
    }

    /// Reads from `source`, whose first read must return a whole file header.
    pub fn new(source: impl Read + Send + 'static) -> Result<Reader, Error> {
        // An empty file has no format either.
        let blocks = create_reader(BUFFER, source).map_err(|error| match error {
            PcapError::ReadError => Error::Read,
            _ => Error::Format,
        })?;
        Ok(Reader { blocks, buffer: BUFFER, nanoseconds: false, section: Section::default(), ended: false })
    }

    /// Returns the next frame, or `None` at the end of the file.
    fn frame(&mut self) -> Result<Option<Captured>, Error> {
        loop {
            match self.blocks.next() {
                Ok((length, block)) => {
                    let frame = match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            self.nanoseconds = resolution(&header)?;
                            None
                        }
                        PcapBlockOwned::Legacy(packet) => Some(legacy(&packet, self.nanoseconds)),
                        PcapBlockOwned::NG(block) => self.section.take(&block)?,
                    };
                    self.blocks.consume(length);
                    if frame.is_some() {
                        return Ok(frame);
                    }
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => self.fill()?,
                Err(PcapError::BufferTooSmall) => self.grow()?,
                Err(PcapError::UnexpectedEof) => return Err(Error::Cut),
                Err(PcapError::ReadError) => return Err(Error::Read),
                Err(_) => return Err(Error::Block),
            }
        }
    }

    /// Reads more data. If none arrives, grows the buffer: a file with false lengths could otherwise keep us here for ever.
    fn fill(&mut self) -> Result<(), Error> {
        let before = self.blocks.data().len();
        self.blocks.refill().map_err(|_| Error::Read)?;
        if self.blocks.data().len() > before || self.blocks.reader_exhausted() { Ok(()) } else { self.grow() }
    }

    fn grow(&mut self) -> Result<(), Error> {
        self.buffer *= 2;
        if self.buffer > LONGEST || !self.blocks.grow(self.buffer) {
            return Err(Error::Long);
        }
        self.fill()
    }
}

impl Iterator for Reader {
    type Item = Result<Captured, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.frame().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Checks the link type; reports whether timestamps are nanoseconds.
fn resolution(header: &PcapHeader) -> Result<bool, Error> {
    link_type::require_ethernet(header.network.0)?;
    Ok(header.is_nanosecond_precision())
}

fn legacy(packet: &LegacyPcapBlock<'_>, nanoseconds: bool) -> Captured {
    let fraction = u64::from(packet.ts_usec) * if nanoseconds { 1 } else { 1000 };
    let time = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(fraction);
    Captured { time, bytes: packet.data.to_vec() }
}
