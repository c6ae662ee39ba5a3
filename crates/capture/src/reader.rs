//! Reader of both formats.

use crate::captured::Captured;
use crate::error::Error;
use crate::pcap::Pcap;
use crate::pcapng::Pcapng;
use crate::source::Source;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The frames of a capture file, in order. The iterator ends after an error; all frames before it are good.
///
/// Takes and refuses the files that libpcap does, if their frames are Ethernet.
pub struct Reader {
    source: Source,
    format: Format,
    ended: bool,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Reader {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        Reader::new(File::open(path)?)
    }

    /// Reads from `file`.
    pub fn new(file: impl Read + Send + 'static) -> Result<Reader, Error> {
        let mut source = Source::new(file);
        if !source.start(1)? {
            return Err(Error::Empty);
        }
        let format = match Pcap::open(&mut source)? {
            Some(pcap) => Format::Pcap(pcap),
            None => Format::Pcapng(Pcapng::open(&mut source)?.ok_or(Error::Format)?),
        };
        Ok(Reader { source, format, ended: false })
    }

    /// Returns the next frame, or `None` at the end of the file.
    fn frame(&mut self) -> Result<Option<Captured>, Error> {
        match &mut self.format {
            Format::Pcap(pcap) => pcap.frame(&mut self.source),
            Format::Pcapng(pcapng) => pcapng.frame(&mut self.source),
        }
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
