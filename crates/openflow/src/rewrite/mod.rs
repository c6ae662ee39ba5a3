//! Applies actions to the headers of a packet, and updates its checksums incrementally (RFC 1624, and SCTP's).
//!
//! Only the first bytes of the packet are copied and changed; the rest stays in place, and is sent behind them. More are copied if an
//! action needs them.

mod field;
mod headers;
mod pseudo_header;
mod ttl;
mod undone;

pub use headers::Headers;
pub use undone::Undone;
