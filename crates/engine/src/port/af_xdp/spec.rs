//! Settings of an AF_XDP port.

use crate::port::Site;
use crate::port::interface::Watcher;
use crate::port::keys::{QUEUE_SIZES, QUEUES, Section};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use crate::port::steer::{Steer, SteerKeys};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::{At, Field};
use std::sync::Arc;
use xsk::Mode;

/// Descriptors of a ring by default: a NIC continues to receive while no worker polls.
const DEFAULT_QUEUE_SIZE: i64 = 1024;

/// The kind.
pub const KIND: Registration = Registration {
    about: "an existing interface of the kernel, through AF_XDP sockets: its frames bypass the kernel's network stack",
    capabilities: Capabilities { lends: true, faces_network: true, has_peer: true, shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// Keys of an AF_XDP port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Name of the interface. The port is down while there is no such interface.
    #[schemars(extend("x-default" = "required"))]
    pub interface: Field<String>,
    /// The component that moves frames between the interface and the switch's memory; `millrace ctl ports` shows the result.
    #[schemars(extend("default" = "auto"))]
    pub mode: Field<MoverKey>,
    /// Queue pairs: the interface's queues from 0 on. Frames that the interface receives in others go to the kernel
    /// (`ethtool -L eth1 combined 1`).
    #[schemars(range(min = QUEUES.start, max = QUEUES.end - 1), extend("default" = 1))]
    pub queues: Field<i64>,
    /// Descriptors of each ring, a power of two.
    #[schemars(range(min = QUEUE_SIZES.start, max = QUEUE_SIZES.end - 1), extend("default" = DEFAULT_QUEUE_SIZE))]
    pub queue_size: Field<i64>,
    /// Of a port of driver `af_xdp` or `dpdk`: a rule for the NIC, which brings frames to a MAC address to a queue. The switch asks
    /// the NIC for it (as `ethtool -N` does, or by DPDK's rte_flow) and removes it when the port closes, even if the NIC had it
    /// before. `millrace ctl ports` shows the rules that the NIC refuses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steer: Vec<At<SteerKeys>>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let queues = section.queues(&self.queues);
        Settings {
            interface: section.interface(&self.interface),
            steer: SteerKeys::build_all(&self.steer, section, queues),
            queues,
            mode: match self.mode.as_ref().map(|at| at.value) {
                None | Some(MoverKey::Auto) => Mode::Auto,
                Some(MoverKey::ZeroCopy) => Mode::ZeroCopy,
                Some(MoverKey::Copy) => Mode::Copy,
            },
            queue_size: section.queue_size(&self.queue_size, DEFAULT_QUEUE_SIZE),
        }
    }
}

/// The component that moves the frames of an AF_XDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MoverKey {
    /// the interface's hardware if its driver can do so, else the kernel
    Auto,
    /// the hardware; if its driver can't, the port does not open
    ZeroCopy,
    /// the kernel, by copying
    Copy,
}

/// Settings of an AF_XDP port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the interface.
    pub interface: String,
    /// Number of queue pairs: the first ones of the interface.
    pub queues: u16,
    /// The component that moves frames between the interface and the switch's memory.
    pub mode: Mode,
    /// Descriptors of each ring.
    pub queue_size: u16,
    /// Rules for the NIC.
    pub steer: Vec<Steer>,
}

impl Kind for Settings {
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
        Watcher::spawn(self.clone(), site.clone())
    }
}
