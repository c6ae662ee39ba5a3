//! Settings of a virtio-user port.

use super::control::LinkThread;
use crate::port::Site;
use crate::port::keys::{QUEUE_SIZES, QUEUES, Section, Side, is_on};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, PathUse, Queues, Registration};
use crate::port::offloads::OffloadsKey;
use ::vhost_user::Mode;
use ::vhost_user::frontend::QueueSizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Descriptors of a ring by default.
const DEFAULT_QUEUE_SIZE: i64 = 256;

/// The kind.
pub const KIND: Registration = Registration {
    about: "another vhost-user switch; the switch is the driver",
    capabilities: Capabilities {
        lends: true,
        exposes_memory: true,
        faces_network: true,
        has_peer: true,
        shares: true,
        ..Capabilities::NONE
    },
    lacks: &[("mac", "The switch sends no frames of its own here, and vhost-user tells nobody an address")],
};

/// Keys of a virtio-user port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Path of the unix socket of the vhost-user protocol.
    #[schemars(extend("x-default" = "required"))]
    pub socket: Field<String>,
    /// The side that listens on the socket.
    #[schemars(extend("default" = "client"))]
    pub mode: Field<Side>,
    /// Queue pairs.
    #[schemars(range(min = QUEUES.start, max = QUEUES.end - 1), extend("default" = 1))]
    pub queues: Field<i64>,
    /// Descriptors of each ring, a power of two.
    #[schemars(range(min = QUEUE_SIZES.start, max = QUEUE_SIZES.end - 1), extend("default" = DEFAULT_QUEUE_SIZE))]
    pub queue_size: Field<i64>,
    /// Offer the packed ring format.
    #[schemars(extend("default" = false))]
    pub packed: Field<bool>,
    /// Work on frames that the backend may leave to the switch, and takes over from it, if it offers that (docs/offloads.md).
    #[schemars(extend("x-default" = "segmentation; none if the port is mapped or changes frames"))]
    pub offloads: Field<OffloadsKey>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let mode = self.mode.as_ref().map_or(Mode::Client, |at| at.value.into());
        Settings {
            socket: section.socket(&self.socket, mode),
            mode,
            queues: section.queues(&self.queues),
            queue_sizes: section.queue_size(&self.queue_size, DEFAULT_QUEUE_SIZE).into(),
            packed: is_on(&self.packed),
            offloads: self.offloads.as_ref().map(|at| at.value),
        }
    }
}

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
    /// Work on frames that the backend may leave to the switch, and the other way round; as much as possible if `None`.
    pub offloads: Option<OffloadsKey>,
}

impl Kind for Settings {
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
