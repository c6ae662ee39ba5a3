//! Settings of an AF_PACKET port.

use crate::port::Site;
use crate::port::interface::Watcher;
use crate::port::keys::Section;
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use crate::port::offloads::OffloadsKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    about: "an existing interface of the kernel, through a packet socket",
    capabilities: Capabilities { faces_network: true, has_peer: true, shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// Keys of an AF_PACKET port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Name of the interface. The port is down while there is no such interface.
    #[schemars(extend("x-default" = "required"))]
    pub interface: Field<String>,
    /// Work on frames that the kernel may leave to the switch, and takes over from it (docs/offloads.md).
    #[schemars(extend("x-default" = "segmentation; none if the port changes frames"))]
    pub offloads: Field<OffloadsKey>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let offloads = self.offloads.as_ref().map(|at| at.value);
        Settings { interface: section.interface(&self.interface), queues: 1, offloads }
    }
}

/// Settings of an AF_PACKET port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface.
    pub interface: String,
    /// Number of queue pairs.
    pub queues: u16,
    /// Work on frames that the kernel may leave to the switch; as much as possible if `None`.
    pub offloads: Option<OffloadsKey>,
}

impl Kind for Settings {
    fn queues(&self) -> Queues {
        Queues::Fixed(self.queues)
    }

    fn needs_interface(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Watcher::spawn(self.clone(), site.clone())
    }
}
