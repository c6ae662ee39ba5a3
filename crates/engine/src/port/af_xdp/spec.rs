//! Settings of an AF_XDP port.

use crate::port::Site;
use crate::port::interface::Keeper;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use std::sync::Arc;
use xsk::Mode;

/// The kind.
pub const KIND: Registration = Registration {
    name: "af_xdp",
    capabilities: Capabilities { lends: true, faces_network: true, has_peer: true, ..Capabilities::NONE },
};

/// Settings of an AF_XDP port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface.
    pub interface: String,
    /// Number of queue pairs: the first ones of the interface.
    pub queues: u16,
    /// Who moves frames between the interface and the switch's memory.
    pub mode: Mode,
    /// Descriptors of each ring.
    pub queue_size: u16,
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

    fn steers(&self) -> Result<(), &'static str> {
        match self.mode {
            Mode::ZeroCopy => Err(
                "is in zero-copy mode: the NIC fills buffers before the switch can steer; mode = \"copy\" leaves the switch time",
            ),
            _ => Ok(()),
        }
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Keeper::spawn(self.clone(), site.clone())
    }
}
