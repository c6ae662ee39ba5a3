//! The vhost-user control path: sessions over a unix socket that hand over virtio rings.
//!
//! - [`backend`]: the device role, used by a switch. It serves one frontend at a time on a socket and tells the owner
//!   of the queues when to start and stop them.
//! - [`frontend`]: the driver role, used by a network function. It shares its memory and gets running queues back.
//!
//! Either role can listen or connect ([`Mode`]). Nothing here touches a ring or knows about ports and workers: that
//! belongs to the owner of the queues. The peer is not trusted: no message can do more than end the peer's own session.
#![warn(unreachable_pub)]

pub mod backend;
pub mod descriptors;
mod event;
pub mod frontend;
mod mode;
mod own_time;
mod rate_limited_log;
mod room;
mod shared_object;
mod socket;
mod wait;

pub use event::Event;
pub use mode::Mode;
pub use shared_object::SharedObject;
pub use socket::{Access, Listener, SocketError, claim, keep_sockets};

/// Reserves kernel resources of sessions and opens the files that they read, before others use them up and before the process
/// gives up the right to.
///
/// # Errors
/// The kernel has nothing left to signal eventfds with.
pub fn prepare() -> std::io::Result<()> {
    room::Room::get();
    if let Err(error) = virtqueue::memory::prepare() {
        tracing::warn!(
            "a page that a guest takes away will be allocated again by the worker that touches it, as the kernel offers no \
             userfaultfd(2) to this process ({error}); docs/security.md says more"
        );
    }
    Event::prepare()
}

/// Starts the thread that sends notifications which take long: once the process has given up rights that this thread does not need.
///
/// # Errors
/// There is no thread or descriptor left.
pub fn start() -> std::io::Result<()> {
    Event::relay()
}

/// Largest number of queue pairs of a device: vhost-user queue indices have eight bits.
pub const MAX_QUEUE_PAIRS: u16 = 128;
