//! The bytes of a file, in order: a record at a time, each at its offset.

use crate::error::{Cut, Error};
use std::io::{BufReader, Read};

/// See the module.
pub(crate) struct Source {
    file: BufReader<Box<dyn Read + Send>>,
    record: Vec<u8>,
    offset: u64,
}

impl Source {
    pub(crate) fn new(file: impl Read + Send + 'static) -> Source {
        Source { file: BufReader::with_capacity(1 << 16, Box::new(file)), record: Vec::new(), offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Starts a record of at least `length` bytes. Reports whether there is one: the file may have ended.
    pub(crate) fn start(&mut self, length: usize) -> Result<bool, Error> {
        self.offset += self.record.len() as u64;
        self.record.clear();
        match self.extend(length) {
            Err(Error::Cut(Cut { bytes: 0, .. })) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Reads on until the record has `length` bytes, and returns it. Takes memory only for bytes that are in the file.
    pub(crate) fn extend(&mut self, length: usize) -> Result<&[u8], Error> {
        let missing = length.saturating_sub(self.record.len());
        let read = self.file.by_ref().take(missing as u64).read_to_end(&mut self.record).map_err(Error::Read)?;
        if read < missing {
            return Err(Error::Cut(Cut { offset: self.offset, bytes: self.record.len() as u64 }));
        }
        Ok(&self.record)
    }
}
