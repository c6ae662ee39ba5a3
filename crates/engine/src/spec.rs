//! Specification of a switch: plain types, validated by the code that builds them.

#[cfg(feature = "analysis")]
pub use crate::port::Analysis;
pub use crate::port::MAX_QUEUES;
use crate::port::PathUse;
use crate::port::files::{FileUse, FileUser};
pub use crate::port::kinds::Driver;
pub use crate::port::pace::Pace;
pub use crate::sharing::MOST_WORKERS as MOST_SHARING;
use packet::MacAddr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::port::exchange::{DEFAULT_BUFFER_SIZE, DEFAULT_BUFFERS, ExchangeMode, ExchangeSpec, MOST_BUFFERS};
pub use paflow::rules::{Chains, NextHop as NextHopSpec, Spec as AggregationSpec};
pub use vhost_user::frontend::QueueSizes;
pub use vhost_user::{Access, Mode};
pub use xsk::Mode as XdpMode;

/// A whole switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// Ports; names are unique.
    pub ports: Vec<PortSpec>,
    /// Patches, each a pair of port names.
    pub patches: Vec<[String; 2]>,
    /// Learning bridges. A port is in at most one patch or bridge.
    pub bridges: Vec<BridgeSpec>,
    /// Physical ports that receive into guests' buffers.
    pub mappings: Vec<MappingSpec>,
    /// Ports whose functions exchange buffers or pages. A port is in at most one exchange.
    pub exchanges: Vec<ExchangeSpec>,
    /// Mirrors of ports' frames.
    pub mirrors: Vec<MirrorSpec>,
    /// Packet aggregation, if any port uses it.
    pub aggregation: Option<AggregationSpec>,
    /// Workers; at least one.
    pub workers: Vec<WorkerSpec>,
    /// Whether the switch adds mappings and exchanges by itself, where that is safe.
    pub acceleration: Acceleration,
    /// The file that this was read from, which no port may overwrite.
    pub configuration: Option<PathBuf>,
}

impl Spec {
    /// Returns its workers, or one with default settings if there are none.
    pub(crate) fn workers_or_default(&self) -> Vec<WorkerSpec> {
        if self.workers.is_empty() { vec![WorkerSpec::default()] } else { self.workers.clone() }
    }

    /// Returns the files that it reads, and those that it records to.
    pub fn files(&self) -> Vec<FileUse> {
        let configuration = self.configuration.iter();
        let configuration = configuration.map(|path| FileUse { path: path.clone(), user: FileUser::Configuration });
        configuration.chain(self.ports.iter().flat_map(PortSpec::files)).collect()
    }
}

/// Whether the switch chooses by itself which queues are mapped, and which ports exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// It does.
    #[default]
    Auto,
    /// Only what the specification says.
    Off,
}

/// A queue of a port, or all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortQueues {
    /// Name of the port.
    pub port: String,
    /// Index of the queue; all queues if `None`.
    pub queue: Option<usize>,
}

impl PortQueues {
    /// Returns all queues of a port.
    pub fn all(port: impl Into<String>) -> PortQueues {
        PortQueues { port: port.into(), queue: None }
    }

    /// Returns one queue of a port.
    pub fn one(port: impl Into<String>, queue: usize) -> PortQueues {
        PortQueues { port: port.into(), queue: Some(queue) }
    }

    /// Reports whether this covers a queue.
    pub fn covers(&self, port: &str, queue: usize) -> bool {
        self.port == port && self.queue.is_none_or(|own| own == queue)
    }
}

impl fmt::Display for PortQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue {
            Some(queue) => write!(f, "{}.{queue}", self.port),
            None => f.write_str(&self.port),
        }
    }
}

/// Receive queue mapping: queues of the physical port receive into buffers that the vhost-user port's guest posted. If
/// both ends are all queues of a port, equal indices go together; an end without an index is queue 0 beside one with an
/// index. A queue is in at most one mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingSpec {
    /// Queues of the physical port.
    pub from: PortQueues,
    /// Queues of the vhost-user port.
    pub to: PortQueues,
    /// The two ends are also patched together: no look-up is needed, and the guest gets frames from nowhere else.
    /// Otherwise their ports are in one bridge.
    pub pass_through: bool,
    /// Length in bytes from which frames stay in the guest's buffers, both ways; measured if `None`.
    pub copy_break: Option<u32>,
    /// Frames that may be received into the guest's buffers, if the bridge has other ports.
    pub tenancy: Tenancy,
}

/// A pair of queues that a mapping joins, by their indices in their ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedQueues {
    /// The physical port's queue.
    pub(crate) physical: usize,
    /// The guest's queue.
    pub(crate) guest: usize,
}

/// Maximum number of addresses that frames can be steered by.
pub const MOST_STEERED: usize = xsk::Steering::MOST_MACS;

/// Policy for receiving other ports' frames into a guest's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Frames for these ports may be received there.
    Trust(Vec<String>),
    /// Frames for any port may be received there.
    TrustAll,
    /// The physical port steers only frames to the guest's static addresses and to group addresses to the queue. Others
    /// are received into the switch's memory.
    SteerByMac,
    /// Something outside the switch ensures that the queue gets only the guest's frames.
    Steered,
    /// None may, for this reason. The mapping only stays so that its ports need not be opened again.
    Held(String),
}

impl MappingSpec {
    /// Reports whether it maps one queue, not all that two ports have.
    pub fn is_of_one(&self) -> bool {
        self.from.queue.is_some() || self.to.queue.is_some()
    }

    /// Returns its pairs of queues in `spec`.
    pub(crate) fn pairs(&self, spec: &Spec) -> Vec<MappedQueues> {
        if self.is_of_one() {
            return vec![MappedQueues { physical: self.from.queue.unwrap_or(0), guest: self.to.queue.unwrap_or(0) }];
        }
        let queues = |name: &String| spec.ports.iter().find(|p| p.name == *name).map_or(0, |p| p.driver.queues());
        let count = queues(&self.from.port).min(queues(&self.to.port));
        (0..count).map(|queue| MappedQueues { physical: queue, guest: queue }).collect()
    }

    /// Returns the name of its mode in the configuration.
    pub fn mode(&self) -> &'static str {
        if self.pass_through { "pass-through" } else { "bridge" }
    }
}

/// A mirror: copies of frames that ports receive and send go to another port, which is in no patch, bridge or mapping, and is not
/// mirrored itself. No two mirrors copy a port's frames to the same port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSpec {
    /// Names of the mirrored ports.
    pub from: Vec<String>,
    /// Name of the port that gets the copies.
    pub to: String,
    /// Direction of the copied frames.
    pub direction: MirrorDirection,
    /// The point at which they are copied.
    pub at: MirrorPoint,
}

/// Direction of the frames that a mirror copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorDirection {
    /// Those that the port receives and those that it sends.
    #[default]
    Both,
    /// Those that the port receives: they enter the switch.
    In,
    /// Those that the port sends: they leave the switch.
    Out,
}

/// The point at which a mirror copies a port's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorPoint {
    /// As they are outside the port: encapsulated, and with packets joined.
    #[default]
    Wire,
    /// As the switch forwards them.
    Forward,
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Unique name.
    pub name: String,
    /// Driver and its settings.
    pub driver: Driver,
    /// VLAN membership and tags of its ports.
    pub vlan: Vlan,
    /// Records every frame, in both directions, to this pcap file.
    pub record: Option<PathBuf>,
    /// Faults injected into frames that the switch receives from the port.
    pub fault: Option<Faults>,
    /// Joins packets before they leave here, and splits aggregates that arrive.
    pub aggregate: bool,
    /// End of a tunnel: all frames outside the port are VXLAN. Excludes `aggregate`.
    pub vxlan: Option<paflow::vxlan::TunnelEnd>,
    /// Workers of its receive queues. If `None`, one worker polls each queue: one that names it, or any.
    pub sharing: Option<SharingSpec>,
    /// Whether the port takes part in what the switch chooses by itself.
    pub acceleration: Acceleration,
    /// Name of its owner: ports of one owner may see each other's frames, and share memory.
    pub group: Option<String>,
    /// Whether all guests trust the program behind it with their memory.
    pub trusted: bool,
    /// Copies every received frame into a private buffer first, as switches with packet pools do, for comparison. No
    /// configuration can ask for it.
    pub staged: bool,
    /// Settings for measurements.
    #[cfg(feature = "analysis")]
    pub analysis: Analysis,
}

impl PortSpec {
    /// Returns a port that leaves frames unchanged.
    pub fn new(name: impl Into<String>, driver: Driver) -> PortSpec {
        PortSpec {
            name: name.into(),
            driver,
            vlan: Vlan::Ignore,
            record: None,
            fault: None,
            aggregate: false,
            vxlan: None,
            sharing: None,
            acceleration: Acceleration::Auto,
            group: None,
            trusted: false,
            staged: false,
            #[cfg(feature = "analysis")]
            analysis: Analysis::default(),
        }
    }

    /// Reports whether both ports are of one owner.
    pub fn is_of_group_of(&self, other: &PortSpec) -> bool {
        self.group.is_some() && self.group == other.group
    }

    fn files(&self) -> Vec<FileUse> {
        let used =
            |path: &Path, user: fn(String) -> FileUser| FileUse { path: path.into(), user: user(self.name.clone()) };
        let paths = self.driver.paths();
        let of_driver = paths.into_iter().filter_map(|(path_use, path)| match path_use {
            PathUse::Read => Some(used(path, FileUser::Replay)),
            PathUse::Write => Some(used(path, FileUser::Recording)),
            PathUse::Listen => None,
        });
        of_driver.chain(self.record.iter().map(|path| used(path, FileUser::Recording))).collect()
    }
}

/// Workers of a port's receive queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingSpec {
    /// The workers, by index; at least one, at most [`MOST_SHARING`], each once.
    pub workers: Vec<usize>,
    /// The way in which they share the queues.
    pub way: Sharing,
}

impl SharingSpec {
    pub(crate) fn has_parent(&self) -> bool {
        matches!(self.way, Sharing::StaticRole(_))
    }

    /// Returns the worker that polls a queue: alone, as its parent, or in turns with the others.
    pub(crate) fn poller(&self, queue: usize) -> usize {
        match self.way {
            Sharing::StaticRole(StaticRoles { parent: Some(parent), .. }) => parent,
            _ => self.workers[queue % self.workers.len()],
        }
    }
}

/// Ways for workers to share the receive queues of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each queue has one worker: they take turns, queue by queue.
    Rss,
    /// All workers receive from each queue, under a lock.
    Locked,
    /// Each queue has a parent, which receives. All workers process.
    StaticRole(StaticRoles),
}

impl Sharing {
    /// Returns its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Sharing::Rss => "rss",
            Sharing::Locked => "locked",
            Sharing::StaticRole(_) => "static-role",
        }
    }
}

/// Terms of a queue that has a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoles {
    /// The parent of all queues, by index, one of the workers or another one. If `None`, the workers are parents in turns, queue
    /// by queue.
    pub parent: Option<usize>,
    /// Whether frames of a flow leave in the order in which they came.
    pub order: Order,
    /// Time after which a worker that holds the oldest frames counts as stalled.
    pub stalled_after: Duration,
}

/// Order of frames that several workers process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Frames of a flow leave in the order in which they came.
    #[default]
    PerFlow,
    /// Frames may overtake each other.
    None,
}

/// The VLANs that a bridge port carries, and their tags.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Vlan {
    /// The bridge ignores tags on this port: frames pass unchanged, in VLAN 0.
    #[default]
    Ignore,
    /// Frames are untagged here and belong to this VLAN.
    Access(u16),
    /// Frames are tagged here, with one of these VLANs; all if none are listed.
    Trunk(Vec<u16>),
}

impl Vlan {
    /// Reports whether the port carries this VLAN.
    pub fn carries(&self, vid: u16) -> bool {
        match self {
            Vlan::Ignore => false,
            Vlan::Access(own) => *own == vid,
            Vlan::Trunk(list) => list.is_empty() || list.contains(&vid),
        }
    }
}

/// Faults to inject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a frame is dropped.
    pub drop: f64,
    /// Probability that one byte of a frame is changed.
    pub corrupt: f64,
    /// Delay of every frame.
    pub delay: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

/// A learning bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeSpec {
    /// Unique name.
    pub name: String,
    /// Its ports, by name.
    pub ports: Vec<String>,
    /// Time without a frame after which a learned address is forgotten.
    pub ageing: Duration,
    /// Maximum number of addresses learned behind each of its ports.
    pub learned_limit: u32,
    /// Whether frames to addresses that bridges keep to themselves pass (IEEE 802.1Q-2022 table 8-1).
    pub forwards_reserved: bool,
    /// Static addresses, neither learned nor forgotten.
    pub statics: Vec<StaticEntry>,
    /// Set if controllers decide by flows where frames go. At most one bridge has this.
    pub flows: Option<FailMode>,
}

/// A static address of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticEntry {
    /// The address.
    pub mac: MacAddr,
    /// The VLAN in which it is.
    pub vlan: u16,
    /// Name of the port behind which it is.
    pub port: String,
}

/// Treatment of frames while there are no flows at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// The bridge forwards them by learned addresses.
    Standalone,
    /// They are dropped.
    Secure,
}

/// A worker thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSpec {
    /// CPU to which it is pinned.
    pub cpu: Option<usize>,
    /// Idle policy.
    pub idle: Idle,
    /// Time that it polls without finding frames before it rests; the default if `None`.
    pub patience: Option<Duration>,
    /// Time that a busy port may take in a round while others are busy; the default if `None`.
    pub turn: Option<Duration>,
    /// Queues it polls. Queues that no worker names are spread evenly.
    pub queues: Vec<PortQueues>,
}

impl WorkerSpec {
    /// Reports whether one thread can serve both: only the queues it polls can change while it runs.
    pub(crate) fn runs_like(&self, other: &WorkerSpec) -> bool {
        *self == WorkerSpec { queues: self.queues.clone(), ..other.clone() }
    }
}

/// Idle policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Poll forever.
    Poll,
    /// Poll, then pause for longer and longer, up to 100 microseconds.
    #[default]
    Backoff,
    /// Poll for a moment, then sleep until a queue has work.
    Sleep,
}

impl Idle {
    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Idle::Poll => "poll",
            Idle::Backoff => "backoff",
            Idle::Sleep => "sleep",
        }
    }
}
