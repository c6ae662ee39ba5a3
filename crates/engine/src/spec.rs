//! What a switch is to be: plain types, checked by whoever makes them.

use std::path::PathBuf;
use std::time::Duration;

pub use paflow::rules::{Chains, NextHop as NextHopSpec, Spec as AggregationSpec};
pub use vhost_user::frontend::QueueSizes;
pub use vhost_user::{Access, Mode};
pub use xsk::Mode as XdpMode;

/// A whole switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// Ports; names are unique.
    pub ports: Vec<PortSpec>,
    /// Wires between two ports each, by name.
    pub patches: Vec<[String; 2]>,
    /// Learning bridges. A port is in one patch or bridge at most.
    pub bridges: Vec<BridgeSpec>,
    /// Physical ports that receive into buffers of guests.
    pub mappings: Vec<MappingSpec>,
    /// What short packets are joined for, if any port does.
    pub aggregation: Option<AggregationSpec>,
    /// Workers; at least one.
    pub workers: Vec<WorkerSpec>,
}

impl Spec {
    /// Its workers: one that does as workers usually do if it names none.
    pub(crate) fn staff(&self) -> Vec<WorkerSpec> {
        if self.workers.is_empty() { vec![WorkerSpec::default()] } else { self.workers.clone() }
    }
}

/// Receive queue mapping: queue by queue, the one port receives into buffers that the other one's guest posted. A port
/// is in one mapping at most.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingSpec {
    /// Name of the physical port.
    pub from: String,
    /// Name of the vhost-user port.
    pub to: String,
    /// The two are also patched together, so that no look-up is needed, and frames come from nowhere else. Otherwise
    /// they are in one bridge.
    pub pass_through: bool,
    /// From so many bytes on a frame of the guest is sent from where it lies; measured if there is none.
    pub copy_break: Option<u32>,
    /// Whose frames may be received into the guest's buffers, if others are in the bridge.
    pub tenancy: Tenancy,
}

/// Most addresses that frames can be steered by.
pub const MOST_STEERED: usize = xsk::Steering::MOST_MACS;

/// What lets the frames of others be received into a guest's buffers, or keeps them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Frames for these ports may be.
    Trust(Vec<String>),
    /// Frames for all ports may be.
    TrustAll,
    /// The physical port gives the queue frames to the guest's static addresses and to groups only. Others arrive in
    /// memory of the switch.
    SteerByMac,
    /// Something outside sees to it that only the guest's frames are in the queue.
    Steered,
}

impl MappingSpec {
    /// Whether the two map the same ports in the same mode.
    pub(crate) fn joins_like(&self, other: &MappingSpec) -> bool {
        *self == MappingSpec { tenancy: self.tenancy.clone(), ..other.clone() }
    }

    /// Its mode in the configuration.
    pub fn mode(&self) -> &'static str {
        if self.pass_through { "pass-through" } else { "bridge" }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Unique name.
    pub name: String,
    /// What it is.
    pub driver: Driver,
    /// How a bridge treats its VLANs.
    pub vlan: Vlan,
    /// Records every frame, in both directions, to this pcap file.
    pub record: Option<PathBuf>,
    /// Injects faults into what the port sends to the switch.
    pub fault: Option<Faults>,
    /// Joins packets before they leave here, and splits aggregates that arrive.
    pub aggregate: bool,
    /// The end of a tunnel: behind the port, everything is inside of VXLAN. Not where packets are joined.
    pub vxlan: Option<paflow::vxlan::End>,
    /// What no configuration can ask for.
    pub analysis: Analysis,
}

impl PortSpec {
    /// One that does nothing to frames.
    pub fn new(name: impl Into<String>, driver: Driver) -> PortSpec {
        PortSpec {
            name: name.into(),
            driver,
            vlan: Vlan::Ignore,
            record: None,
            fault: None,
            aggregate: false,
            vxlan: None,
            analysis: Analysis::default(),
        }
    }
}

/// What a port does differently for the sake of those who compare and analyse. Nothing of it is of use otherwise, and no
/// configuration can ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Copies every received frame into a private buffer first, as switches with packet pools do.
    pub staged: bool,
    /// Frames from here are copied even if the port is mapped: from a physical port to the guest, from a guest to the
    /// physical port. Of vhost-user and virtio-user ports.
    pub copied: bool,
    /// Frames go out here without being copied: descriptors move as ever, and what arrives is whatever was in the buffer
    /// before. Of vhost-user and virtio-user ports.
    pub omit_copies: bool,
}

/// Most queue pairs of a port.
pub const MAX_QUEUES: u16 = 64;

/// What a port is connected to.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are named after their configuration keys.
pub enum Driver {
    /// A guest's virtio-net device: the switch is the device. The guest has as many queue pairs as it asks for, if their
    /// number is not given.
    VhostUser { socket: PathBuf, mode: Mode, access: Access, queues: Option<u16>, any_memory: bool },
    /// Somebody else's vhost-user backend: the switch is the driver.
    VirtioUser { socket: PathBuf, mode: Mode, queues: u16, queue_sizes: QueueSizes, packed: bool },
    /// A kernel tap device.
    Tap { interface: Option<String>, mtu: Option<u32>, queues: u16 },
    /// A kernel interface, by AF_PACKET rings.
    AfPacket { interface: String, queues: u16 },
    /// A kernel interface, by AF_XDP sockets.
    AfXdp { interface: String, queues: u16, mode: XdpMode, queue_size: u16 },
    /// Frames from a file, frames to a file.
    Pcap { replay: Option<PathBuf>, record: Option<PathBuf>, repeat: bool, pace: Pace },
    /// Makes frames up; drops what is sent to it.
    Generator { size: u32, pace: Pace, frames: u64, mac: Option<[u8; 6]> },
    /// Drops what is sent to it.
    Sink,
}

impl Driver {
    /// Its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Driver::VhostUser { .. } => "vhost-user",
            Driver::VirtioUser { .. } => "virtio-user",
            Driver::Tap { .. } => "tap",
            Driver::AfPacket { .. } => "af_packet",
            Driver::AfXdp { .. } => "af_xdp",
            Driver::Pcap { .. } => "pcap",
            Driver::Generator { .. } => "generator",
            Driver::Sink => "sink",
        }
    }

    /// Queue pairs, at most.
    pub fn queues(&self) -> usize {
        match *self {
            Driver::VhostUser { queues, .. } => queues.unwrap_or(MAX_QUEUES).into(),
            Driver::VirtioUser { queues, .. }
            | Driver::Tap { queues, .. }
            | Driver::AfPacket { queues, .. }
            | Driver::AfXdp { queues, .. } => queues.into(),
            Driver::Pcap { .. } | Driver::Generator { .. } | Driver::Sink => 1,
        }
    }

    /// Whether a guest decides how many of them there are.
    pub fn is_asked(&self) -> bool {
        matches!(self, Driver::VhostUser { queues: None, .. })
    }
}

/// How fast frames are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Frames a second; zero for as many as are taken.
    pub rate: u64,
    /// Frames that are made at once, if there is a rate; zero means one.
    pub burst: u32,
}

/// Which VLANs a bridge port carries, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Vlan {
    /// The bridge does not look at tags on this port: frames pass as they are, in VLAN 0.
    #[default]
    Ignore,
    /// Frames are untagged here and belong to this VLAN.
    Access(u16),
    /// Frames are tagged here, with one of these VLANs; all if none are listed.
    Trunk(Vec<u16>),
}

impl Vlan {
    /// Whether the port carries this VLAN.
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
    /// Time by which every frame is late.
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
    /// After so long without a frame from it, a learned address is forgotten.
    pub ageing: Duration,
    /// Most addresses that are learned behind each of its ports.
    pub learned_limit: u32,
    /// Addresses that are never learned or forgotten: (address, VLAN, port).
    pub statics: Vec<([u8; 6], u16, String)>,
    /// Controllers say where frames go, by flows. One bridge at most.
    pub flows: Option<FailMode>,
}

/// What becomes of frames while there are no flows at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// They go as through any bridge.
    Standalone,
    /// They are dropped.
    Secure,
}

/// A worker thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSpec {
    /// CPU to run on and nowhere else.
    pub cpu: Option<usize>,
    /// What to do when there is nothing to do.
    pub idle: Idle,
    /// How long it polls on before that, if not as long as is usual.
    pub patience: Option<Duration>,
    /// Queues it polls: port name and queue, all queues of the port if none. What no worker names is spread evenly.
    pub queues: Vec<(String, Option<usize>)>,
}

impl WorkerSpec {
    /// Whether the thread of the one is as good as the thread of the other; what it polls can be changed while it runs.
    pub(crate) fn runs_like(&self, other: &WorkerSpec) -> bool {
        *self == WorkerSpec { queues: self.queues.clone(), ..other.clone() }
    }
}

/// Idle policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Poll for ever.
    Poll,
    /// Poll, then pause for longer and longer, up to 100 microseconds.
    #[default]
    Backoff,
    /// Poll for a moment, then sleep until a queue says that it has work.
    Sleep,
}

impl Idle {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Idle::Poll => "poll",
            Idle::Backoff => "backoff",
            Idle::Sleep => "sleep",
        }
    }
}
