//! Settings of an AF_PACKET port.

use crate::port::Site;
use crate::port::interface::Keeper;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    name: "af_packet",
    capabilities: Capabilities { faces_network: true, has_peer: true, ..Capabilities::NONE },
};

/// Settings of an AF_PACKET port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface.
    pub interface: String,
    /// Number of queue pairs.
    pub queues: u16,
}

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn queues(&self) -> Queues {
        Queues::Fixed(self.queues)
    }

    fn needs_interface(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Keeper::spawn(self.clone(), site.clone())
    }
}
