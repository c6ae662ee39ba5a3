//! Reader of both formats.

use crate::pcapng::Section;
use crate::{Captured, ETHERNET};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapBlock, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// Bytes to read at once.
const BUFFER: usize = 1 << 16;

/// Longest block in bytes: libpcap refuses longer ones too.
const LONGEST: usize = 1 << 24;

/// Reason why a file could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be opened.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// The system failed to read it to its end.
    #[error("it can't be read to its end")]
    Read,
    /// It has neither format.
    #[error("it is neither pcap nor pcapng")]
    Format,
    /// It holds packets of another kind, given by its number in IANA's registry of link types.
    #[error("its packets are of link type {0}, not Ethernet frames")]
    LinkType(u16),
    /// It has a packet of an interface with this number, which it did not describe before.
    #[error("it has a packet of interface {0}, which it does not describe")]
    Interface(u32),
    /// It has an interface with an impossible timestamp resolution, given as `if_tsresol`.
    #[error("it has an interface with timestamps of resolution {0:#x}")]
    Resolution(u8),
    /// It ends within a packet, as does a file that is still being written.
    #[error("it ends within a packet")]
    Cut,
    /// It claims to have a block longer than 16 MiB.
    #[error("it has a block of more than {} MiB", LONGEST >> 20)]
    Long,
    /// A block contradicts itself.
    #[error("it has a block that contradicts itself")]
    Block,
}

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
    ethernet(header.network.0)?;
    Ok(header.is_nanosecond_precision())
}

/// Fails unless a link type is Ethernet. The upper bits in a file header have other meanings.
pub(crate) fn ethernet(link: i32) -> Result<(), Error> {
    match link as u16 {
        ETHERNET => Ok(()),
        other => Err(Error::LinkType(other)),
    }
}

fn legacy(packet: &LegacyPcapBlock<'_>, nanoseconds: bool) -> Captured {
    let fraction = u64::from(packet.ts_usec) * if nanoseconds { 1 } else { 1000 };
    let time = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(fraction);
    Captured { time, bytes: packet.data.to_vec() }
}
