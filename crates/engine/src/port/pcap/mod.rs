//! pcap ports: receive the frames of one capture file, and write frames sent to them to another.

mod control;
mod rx;
mod spec;
mod survey;
mod tx;

pub use rx::Replay;
pub use spec::{KIND, Keys, Settings};
pub use survey::Survey;
pub use tx::Record;
