//! Settings of a tap port.

use crate::port::Site;
use crate::port::interface::Keeper;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    name: "tap",
    capabilities: Capabilities { faces_network: true, has_peer: true, ..Capabilities::NONE },
};

/// Settings of a tap port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface; the kernel chooses one if `None`.
    pub interface: Option<String>,
    /// MTU that the interface gets; unchanged if `None`.
    pub mtu: Option<u32>,
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

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Keeper::spawn(self.clone(), site.clone())
    }
}
