//! The protocol: its numbers, its errors, ports and fields of packets, and the reader and writer of messages.

mod error;
mod field;
mod message;
pub mod ofp;
mod port;

pub use error::Error;
pub(crate) use field::FIELDS;
pub use field::Field;
pub(crate) use message::{Message, Put, Reader, put_message};
pub(crate) use port::{Attached, Ports, write_duration};
pub use port::{Port, PortConfig, PortStats};
