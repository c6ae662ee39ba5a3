//! vhost-user, the control side: sessions over a unix socket that end in virtio rings being handed over.
//!
//! - [`backend`]: the device role, which a switch has. It serves one frontend after the other on a socket and tells the
//!   owner of the queues when to start and stop them.
//! - [`frontend`]: the driver role, which a network function has. It shares its memory and gets running queues back.
//!
//! Either role can listen or connect ([`Mode`]). Nothing here touches a ring, or knows of ports and workers; that is
//! for whoever gets the queues. The peer is not trusted: whatever it sends, it can at most end its own session.
#![warn(unreachable_pub)]

pub mod backend;
mod descriptors;
mod event;
pub mod frontend;
mod journal;
mod mode;
mod socket;
mod wait;

pub use event::Event;
pub use mode::Mode;
pub use socket::{Access, SocketError, claim, keep_sockets};

/// Most queue pairs of a device: vhost-user names queues with eight bits.
pub const MAX_QUEUE_PAIRS: u16 = 128;
