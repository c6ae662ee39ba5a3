//! Capture files: reads Ethernet frames from pcap and pcapng, and writes them to pcap.
//!
//! [`Reader`] is an iterator over the frames of any file: it always ends, and an error in the file is its last item.
//! [`Writer`] writes the classic format, draft-ietf-opsawg-pcap, which every tool reads.
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
    /// Captured bytes, starting with the destination address.
    pub bytes: Vec<u8>,
}

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
