//! Settings of a tap port.

use crate::port::Site;
use crate::port::interface::Watcher;
use crate::port::keys::{QUEUES, Section};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use crate::port::offloads::OffloadsKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::ops::Range;
use std::sync::Arc;

/// MTUs: IPv4's minimum to the usual jumbo frame.
const MTUS: Range<i64> = 68..9001;

/// MTU by default.
const DEFAULT_MTU: i64 = 1500;

/// The kind.
pub const KIND: Registration = Registration {
    about: "a tap interface of the kernel, created by the switch",
    capabilities: Capabilities { faces_network: true, has_peer: true, shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// Keys of a tap port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Name that the interface gets. The port keeps it when others rename it, or move it into another network namespace.
    #[schemars(extend("x-default" = "chosen by the kernel"))]
    pub interface: Field<String>,
    /// MTU that the interface gets.
    #[schemars(range(min = MTUS.start, max = MTUS.end - 1), extend("default" = DEFAULT_MTU))]
    pub mtu: Field<i64>,
    /// Queue pairs.
    #[schemars(range(min = QUEUES.start, max = QUEUES.end - 1), extend("default" = 1))]
    pub queues: Field<i64>,
    /// Work on frames that the kernel may leave to the switch, and takes over from it (docs/offloads.md).
    #[schemars(extend("x-default" = "segmentation; none if the port changes frames"))]
    pub offloads: Field<OffloadsKey>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        Settings {
            interface: self.interface.as_ref().map(|at| section.checks.interface(at)),
            mtu: Some(section.number("mtu", &self.mtu, &MTUS, DEFAULT_MTU) as u32),
            queues: section.queues(&self.queues),
            offloads: self.offloads.as_ref().map(|at| at.value),
        }
    }
}

/// Settings of a tap port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface; the kernel chooses one if `None`.
    pub interface: Option<String>,
    /// MTU that the interface gets; unchanged if `None`.
    pub mtu: Option<u32>,
    /// Number of queue pairs.
    pub queues: u16,
    /// Work on frames that the kernel may leave to the switch; as much as possible if `None`.
    pub offloads: Option<OffloadsKey>,
}

impl Kind for Settings {
    fn queues(&self) -> Queues {
        Queues::Fixed(self.queues)
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Watcher::spawn(self.clone(), site.clone())
    }
}
