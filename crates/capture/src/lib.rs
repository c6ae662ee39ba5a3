//! Capture files: reads Ethernet frames from pcap and pcapng, and writes them to pcap.
//!
//! [`Reader`] is an iterator over the frames of any file: it always ends, and an error in the file is its last item.
//! [`Writer`] writes the classic format, draft-ietf-opsawg-pcap, which every tool reads.
#![forbid(unsafe_code)]

mod captured;
mod error;
mod link_type;
mod pcapng;
mod reader;
mod writer;

pub use captured::Captured;
pub use error::Error;
pub use reader::Reader;
pub use writer::Writer;
