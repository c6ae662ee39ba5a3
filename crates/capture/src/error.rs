//! Reasons why a capture file can't be read.

use std::fmt;
use std::io;

/// Longest block in bytes: libpcap refuses longer ones too.
pub(crate) const LONGEST: usize = 1 << 24;

/// The end of a file that was cut off, as one that is still being written often is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Offset of the first byte that belongs to no whole packet.
    pub offset: u64,
    /// Number of bytes from there to the end of the file.
    pub bytes: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it is cut off: its last {} bytes, from offset {} on, are not a whole packet",
            self.bytes, self.offset
        )
    }
}

/// Reason why a file could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be opened.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// The system failed to read it to its end.
    #[error("it can't be read to its end: {0}")]
    Read(#[source] io::Error),
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It has neither format.
    #[error("it is neither pcap nor pcapng")]
    Format,
    /// It is of a version of its format that is not known.
    #[error("it is {format} of version {major}.{minor}, which is not known")]
    Version {
        /// `pcap` or `pcapng`.
        format: &'static str,
        /// Number before the dot.
        major: u16,
        /// Number after it.
        minor: u16,
    },
    /// It has bits set in its header that must be zero.
    #[error("the link type in its header, {0:#010x}, has bits set that must be zero")]
    Reserved(u32),
    /// It holds packets of another kind, given by its number in IANA's registry of link types.
    #[error("it has packets of link type {0}, which are not Ethernet frames")]
    LinkType(u16),
    /// It has interfaces that capture different numbers of bytes at most, as no file has that libpcap reads.
    #[error("its interfaces have different snapshot lengths, {0} and {1}, which libpcap does not read either")]
    SnapshotLength(u32, u32),
    /// It describes no interface, so the kind of its packets is unknown.
    #[error("it has no interface description")]
    NoInterface,
    /// It has a packet of an interface with this number, which it did not describe before.
    #[error("it has a packet of interface {0}, which it does not describe")]
    Interface(u32),
    /// It has an interface with timestamps finer than 64 bits can count, given as `if_tsresol`.
    #[error("it has an interface with timestamps of resolution {0:#x}, which is too fine")]
    Resolution(u8),
    /// It has a section in the other byte order.
    #[error("it has sections of different byte orders")]
    ByteOrder,
    /// It ends within a packet. All packets before it were read.
    #[error("{0}")]
    Cut(Cut),
    /// It claims to have a packet or block that is longer than any, or than its interface captures.
    #[error("its block at offset {offset} claims to have {length} bytes, more than it may")]
    Long {
        /// Offset of the block.
        offset: u64,
        /// Length that it gives.
        length: u32,
    },
    /// A block contradicts itself.
    #[error("its block at offset {0} contradicts itself")]
    Block(u64),
}
