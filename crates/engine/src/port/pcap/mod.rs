//! pcap ports: receive the frames of one capture file, and write frames sent to them to another.

mod rx;
mod spec;
mod tx;

pub use rx::Replay;
pub use spec::{KIND, Keys, Settings};
pub use tx::Record;
