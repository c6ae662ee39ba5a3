//! Reasons why a capture file can't be read.

use std::io;

/// Longest block in bytes: libpcap refuses longer ones too.
pub(crate) const LONGEST: usize = 1 << 24;

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
