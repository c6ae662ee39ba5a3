//! Capture files: reads Ethernet frames from pcap and pcapng, and writes them to pcap.
//!
//! [`Reader`] is an iterator over the frames of any file: it always ends, and an error in the file is its last item.
//! [`Writer`] writes the classic format, draft-ietf-opsawg-pcap, which every tool reads.
#![forbid(unsafe_code)]

mod captured;
mod error;
mod fields;
mod interface;
mod link_type;
mod pcap;
mod pcapng;
mod reader;
mod snapshot;
mod source;
mod writer;

pub use captured::Captured;
pub use error::{Cut, Error};
pub use pcap::{FILE_HEADER, PACKET_HEADER};
pub use reader::Reader;
pub use writer::{Writer, file_header, packet_end, packet_header};
