//! Reading both formats.

use crate::pcapng::Section;
use crate::{Captured, ETHERNET};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapBlock, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// Blocks of this many bytes are in no honest file: libpcap takes none that is longer either.
const LONGEST: usize = 1 << 24;

/// Why a file could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be opened.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// The system refused to read it further.
    #[error("it can't be read to its end")]
    Read,
    /// It is in neither of the formats.
    #[error("it is neither pcap nor pcapng")]
    Format,
    /// It holds packets of another kind. The number is what IANA's registry of link types has.
    #[error("its packets are of link type {0}, not Ethernet frames")]
    LinkType(u16),
    /// A packet of an interface by this number, which was not described before.
    #[error("it has a packet of interface {0}, which it does not describe")]
    Interface(u32),
    /// Timestamps of an interface have a resolution that can't be, written as `if_tsresol`.
    #[error("it has an interface with timestamps of resolution {0:#x}")]
    Resolution(u8),
    /// It ends within a packet, as a file does that is still being written.
    #[error("it ends within a packet")]
    Cut,
    /// It says that a packet is longer than 16 MiB.
    #[error("it has a block of more than {} MiB", LONGEST >> 20)]
    Long,
    /// A block contradicts itself.
    #[error("it has a block that contradicts itself")]
    Block,
}

/// The frames of a capture file, in order. After an error there are no more.
pub struct Reader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    /// Bytes that the reader holds at most, at the moment.
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

    /// Reads from `source`, which must give a whole file header at once.
    pub fn new(source: impl Read + Send + 'static) -> Result<Reader, Error> {
        // An empty file has no format either.
        let blocks = create_reader(BUFFER, source).map_err(|error| match error {
            PcapError::ReadError => Error::Read,
            _ => Error::Format,
        })?;
        Ok(Reader { blocks, buffer: BUFFER, nanoseconds: false, section: Section::default(), ended: false })
    }

    /// The next frame, unless the file has ended.
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

    /// Reads on. A round that brings nothing is the last: a file that lies about lengths could keep us here for ever.
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

/// Whether timestamps are nanoseconds.
fn resolution(header: &PcapHeader) -> Result<bool, Error> {
    ethernet(header.network.0)?;
    Ok(header.is_nanosecond_precision())
}

/// Fails unless a link type is Ethernet. Above its 16 bits, a file header says other things.
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
