//! Files that tests make, field by field.

use capture::{Captured, Error, Reader, Writer};
use std::io::Cursor;

pub const SECTION: u32 = 0x0a0d_0d0a;
pub const INTERFACE: u32 = 1;
pub const PACKET: u32 = 2;
pub const SIMPLE: u32 = 3;
pub const ENHANCED: u32 = 6;

/// Reads a file to its end.
pub fn read(file: Vec<u8>) -> Result<Vec<Captured>, Error> {
    Reader::new(Cursor::new(file))?.collect()
}

/// Returns a file as Millrace writes it.
pub fn pcap(frames: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, 65_549).unwrap();
    for frame in frames {
        writer.write(frame.time, &frame.bytes).unwrap();
    }
    file
}

/// Byte order of the numbers in a file.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub big: bool,
}

pub const LITTLE: Order = Order { big: false };
pub const BIG: Order = Order { big: true };

impl Order {
    pub fn half(self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    pub fn word(self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// Returns the file header of the classic format.
    pub fn header(self, magic: u32, (major, minor): (u16, u16), snapshot: u32, link: u32) -> Vec<u8> {
        let version = [self.half(major), self.half(minor)].concat();
        [&self.word(magic)[..], &version, &[0; 8], &self.word(snapshot), &self.word(link)].concat()
    }

    /// Returns a packet of the classic format, whose header has these lengths in this order and `more` bytes after them.
    pub fn record(self, (seconds, fraction): (u32, u32), lengths: [u32; 2], more: usize, bytes: &[u8]) -> Vec<u8> {
        let words = [seconds, fraction, lengths[0], lengths[1]].map(|word| self.word(word));
        [words.as_flattened(), &vec![0; more], bytes].concat()
    }

    /// Returns a block of pcapng.
    pub fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.word(body.len() as u32 + 12);
        [&self.word(kind), &length, &body[..], &length].concat()
    }

    pub fn section(self) -> Vec<u8> {
        self.section_of(1, 0)
    }

    /// Returns a section header of this version.
    pub fn section_of(self, major: u16, minor: u16) -> Vec<u8> {
        let version = [self.half(major), self.half(minor)].concat();
        self.block(SECTION, &[&self.word(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat())
    }

    /// Returns an interface whose timestamps have this resolution.
    pub fn interface(self, link: u16, snapshot: u32, resolution: u8) -> Vec<u8> {
        let option = [&self.half(9)[..], &self.half(1), &[resolution, 0, 0, 0]].concat();
        self.interface_with(link, snapshot, &[&option[..], &self.word(0)].concat())
    }

    /// Returns an interface with these options.
    pub fn interface_with(self, link: u16, snapshot: u32, options: &[u8]) -> Vec<u8> {
        self.block(INTERFACE, &[&self.half(link)[..], &[0; 2], &self.word(snapshot), options].concat())
    }

    pub fn packet(self, interface: u32, timestamp: u64, bytes: &[u8]) -> Vec<u8> {
        self.snapped(interface, timestamp, bytes, bytes.len() as u32)
    }

    /// Returns a packet that had `original` bytes.
    pub fn snapped(self, interface: u32, timestamp: u64, bytes: &[u8], original: u32) -> Vec<u8> {
        let words = [interface, (timestamp >> 32) as u32, timestamp as u32, bytes.len() as u32, original];
        self.block(ENHANCED, &[words.map(|word| self.word(word)).as_flattened(), bytes].concat())
    }

    /// Returns an obsolete Packet Block.
    pub fn obsolete(self, interface: u16, timestamp: u64, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len() as u32;
        let words = [(timestamp >> 32) as u32, timestamp as u32, length, length].map(|word| self.word(word));
        self.block(PACKET, &[&self.half(interface)[..], &self.half(9), words.as_flattened(), bytes].concat())
    }

    pub fn simple(self, original: u32, bytes: &[u8]) -> Vec<u8> {
        self.block(SIMPLE, &[&self.word(original)[..], bytes].concat())
    }
}

/// Returns a file with these frames in nanoseconds.
pub fn pcapng(frames: &[Captured]) -> Vec<u8> {
    let mut file = [LITTLE.section(), LITTLE.interface(1, 0, 9)].concat();
    for frame in frames {
        file.extend(LITTLE.packet(0, frame.time.as_nanos() as u64, &frame.bytes));
    }
    file
}
