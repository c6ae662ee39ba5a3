//! Settings of a vhost-user port.

use super::access::{self, AccessKeys};
use super::queues::QueuesKey;
use crate::port::keys::{QUEUES, Section, Side};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Registration};
use crate::port::offloads::OffloadsKey;
use ::vhost_user::backend::{Holes, NEWEST};
use ::vhost_user::{Access, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::ops::Range;
use std::path::PathBuf;

/// The kind.
pub const KIND: Registration = Registration {
    about: "a guest or container that brings a virtio-net driver; the switch is the device",
    capabilities: Capabilities { has_guest: true, has_peer: true, shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// MTUs of a guest (virtio 1.2 §5.1.4.1).
const MTUS: Range<i64> = 68..65536;

/// Versions of the set of features.
const OFFERS: Range<i64> = 1..NEWEST as i64 + 1;

/// Keys of a vhost-user port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Path of the unix socket of the vhost-user protocol.
    #[schemars(extend("x-default" = "required"))]
    pub socket: Field<String>,
    /// The side that listens on the socket.
    #[schemars(extend("default" = "server"))]
    pub mode: Field<Side>,
    /// Permissions of the socket, three or four octal digits, e.g. `"0660"`; connecting requires write permission. In mode
    /// `"server"` only.
    #[schemars(regex(pattern = r"^0?[0-7]{3}$"), extend("x-default" = "as the umask says"))]
    pub socket_mode: Field<String>,
    /// User that the socket belongs to, by name or number. In mode `"server"` only; takes effect when the switch starts.
    #[schemars(extend("x-default" = "the user that the switch runs as"))]
    pub socket_owner: Field<String>,
    /// Group that the socket belongs to, by name or number. In mode `"server"` only; takes effect when the switch starts.
    #[schemars(extend("x-default" = "the group that the switch runs as"))]
    pub socket_group: Field<String>,
    /// Files that the guest's memory may lie in.
    #[schemars(extend("default" = "shared"))]
    pub memory: Field<MemoryKey>,
    /// Pages of the guest's memory that do not exist when it connects: those that it has never touched.
    #[schemars(extend("default" = "fill"))]
    pub holes: Field<HolesKey>,
    /// Maximum number of queue pairs of a guest: one that asks for more is refused. `"auto"` gives it as many as it asks for,
    /// up to 128, and one worker polls all queues that no worker names.
    #[schemars(extend("default" = "auto"))]
    pub queues: Field<QueuesKey>,
    /// Greatest MTU that the guest may have; with it, the guest is offered its MTU (VIRTIO_NET_F_MTU), which QEMU sets by `host_mtu`.
    #[schemars(range(min = MTUS.start, max = MTUS.end - 1), extend("x-default" = "any, and the guest is not told"))]
    pub mtu: Field<i64>,
    /// Version of the set of virtio features that guests are offered (docs/guests.md). Name it where a guest may move to another switch, or
    /// this one may be replaced: a newer switch offers the same then.
    #[schemars(range(min = OFFERS.start, max = OFFERS.end - 1), extend("x-default" = "the newest"))]
    pub offers: Field<i64>,
    /// Work on frames that the guest may leave to the switch, and takes over from it (docs/offloads.md). A guest that runs keeps what it was
    /// offered first.
    #[schemars(extend("x-default" = "segmentation; none with `offers = 1`, or if the port is mapped or changes frames"))]
    pub offloads: Field<OffloadsKey>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let mode = self.mode.as_ref().map_or(Mode::Server, |at| at.value.into());
        let queues = self.queues.as_ref().and_then(|at| match at.value {
            QueuesKey::Auto => None,
            QueuesKey::Number(number) => section.within("queues", number, &at.span, &QUEUES).then_some(number as u16),
        });
        Settings {
            socket: section.socket(&self.socket, mode),
            mode,
            access: access::build(
                section,
                AccessKeys { mode: &self.socket_mode, owner: &self.socket_owner, group: &self.socket_group },
                mode,
            ),
            queues,
            mtu: self.mtu.as_ref().map(|_| section.number("mtu", &self.mtu, &MTUS, 1500) as u16),
            offers: section.number("offers", &self.offers, &OFFERS, NEWEST.into()) as u8,
            offloads: self.offloads.as_ref().map(|at| at.value),
            any_memory: self.memory.as_ref().is_some_and(|at| at.value == MemoryKey::Any),
            holes: self.holes.as_ref().map_or(Holes::Fill, |at| at.value.into()),
        }
    }
}

/// Files that the memory of a guest may lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MemoryKey {
    /// Files that are memory: from memfd_create, or on a tmpfs or hugetlbfs.
    Shared,
    /// Any file. The server of a file, as with FUSE, can delay reads forever, and so stop the workers: only for guests that
    /// are trusted not to.
    Any,
}

/// Treatment of pages of a guest's memory that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum HolesKey {
    /// The switch allocates them when the guest shares its memory, at its own expense: up to half of the free memory of the
    /// machine and of the switch's control group. A page that vanishes later costs the guest its connection.
    Fill,
    /// The guest is refused. A page that vanishes later costs it its connection.
    Refuse,
    /// The switch allocates them, at its own expense, when frames need them. For guests with a memory balloon, which give
    /// pages back and take them again; they must be trusted with the switch's time and memory.
    Allow,
}

impl From<HolesKey> for Holes {
    fn from(key: HolesKey) -> Holes {
        match key {
            HolesKey::Fill => Holes::Fill,
            HolesKey::Refuse => Holes::Refuse,
            HolesKey::Allow => Holes::Allow,
        }
    }
}

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
    /// Greatest MTU of the guest in bytes, which it is offered; `None` if it is not, and may have any.
    pub mtu: Option<u16>,
    /// Version of the set of features that guests are offered.
    pub offers: u8,
    /// Work on frames that the guest may leave to the switch; what the version offers if `None`.
    pub offloads: Option<OffloadsKey>,
    /// Whether the guest's memory may lie in files of any kind.
    pub any_memory: bool,
    /// Treatment of pages of its memory that do not exist.
    pub holes: Holes,
}

impl Settings {
    /// Returns the settings of a port that listens at this path, and has defaults besides.
    pub fn at(socket: impl Into<PathBuf>) -> Settings {
        Settings {
            socket: socket.into(),
            mode: Mode::Server,
            access: Access::default(),
            queues: None,
            mtu: None,
            offers: NEWEST,
            offloads: None,
            any_memory: false,
            holes: Holes::Fill,
        }
    }
}
