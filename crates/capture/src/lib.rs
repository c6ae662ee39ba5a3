//! Capture files: Ethernet frames are read from pcap and pcapng, and written to pcap.
//!
//! [`Reader`] is an iterator over the frames of a file, whatever its bytes are: it ends, and what is wrong with the file is
//! the last thing that it says. [`Writer`] writes the classic format, draft-ietf-opsawg-pcap, which every tool reads.
#![forbid(unsafe_code)]

mod pcapng;
mod reader;
mod writer;

pub use reader::{Error, Reader};
pub use writer::Writer;

use std::time::Duration;

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time since 1970.
    pub time: Duration,
    /// What was captured of it, from its destination address on.
    pub bytes: Vec<u8>,
}

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
