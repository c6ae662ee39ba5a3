//! Settings of a vhost-user port.

use super::control::Backend;
use crate::port::Site;
use crate::port::kind::{Capabilities, Kind, Opened, PathUse, Queues, Registration};
use ::vhost_user::{Access, Mode, claim};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    name: "vhost-user",
    capabilities: Capabilities { has_guest: true, has_peer: true, ..Capabilities::NONE },
};

/// Settings of a vhost-user port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Side of the socket that the switch takes.
    pub mode: Mode,
    /// Owner and permissions of the socket.
    pub access: Access,
    /// Maximum number of queue pairs; the guest chooses if `None`.
    pub queues: Option<u16>,
    /// Whether the guest's memory may lie in files of any kind.
    pub any_memory: bool,
}

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn queues(&self) -> Queues {
        self.queues.map_or(Queues::Asked, Queues::Fixed)
    }

    fn paths(&self) -> Vec<(PathUse, &Path)> {
        // Connecting needs no permission.
        (self.mode == Mode::Server).then_some((PathUse::Listen, &*self.socket)).into_iter().collect()
    }

    /// Creates a socket that has an owner or group: a confined switch cannot change ownership.
    fn claim(&self) -> Result<(), String> {
        if self.mode == Mode::Server && self.access.is_given() {
            claim(&self.socket, &self.access).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Backend::spawn(self, site).map(Opened::by)
    }
}
