//! Settings of a virtio-user port.

use super::control::LinkThread;
use crate::port::Site;
use crate::port::kind::{Capabilities, Kind, Opened, PathUse, Queues, Registration};
use ::vhost_user::Mode;
use ::vhost_user::frontend::QueueSizes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    name: "virtio-user",
    capabilities: Capabilities { lends: true, faces_network: true, has_peer: true, ..Capabilities::NONE },
};

/// Settings of a virtio-user port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Side of the socket that the switch takes.
    pub mode: Mode,
    /// Number of queue pairs.
    pub queues: u16,
    /// Descriptors of each ring.
    pub queue_sizes: QueueSizes,
    /// Whether the packed ring format is offered.
    pub packed: bool,
}

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn queues(&self) -> Queues {
        Queues::Fixed(self.queues)
    }

    fn paths(&self) -> Vec<(PathUse, &Path)> {
        // Connecting needs no permission.
        (self.mode == Mode::Server).then_some((PathUse::Listen, &*self.socket)).into_iter().collect()
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let link = LinkThread::spawn(self, site.clone()).map_err(|e| format!("cannot start a thread: {e}"))?;
        Ok(Opened::by(link))
    }
}
