//! The configuration: what the switch is to be. Plain values, every one of them checked.
//!
//! [`Config::load`] reads a file into `raw` (what is written, with places), judges all of it, and only then builds
//! this. Who holds a [`Config`] need not check anything again but what only the running machine knows (does the
//! interface exist?).

mod access;
mod aggregation;
mod build;
mod changes;
mod confinement;
mod forwarding;
mod mappings;
mod openflow;
mod options;
mod ports;
mod raw;
mod reach;
mod reference;
#[cfg(test)]
mod tests;
mod value;
mod vxlan;
mod workers;

pub use confinement::Confinement;
pub use raw::{FailMode, Idle, Mode};
pub use reach::{Grant, Purpose, Reach, ReachError};
pub use reference::{markdown, schema};
pub use settings::aggregation::{Aggregation, Flow, NextHop, ServiceChainId, Transport, UnknownChains};
pub use settings::{Mac, Problem, Report, Severity};
pub use value::ListenAddress;

use engine::spec::{Access, MAX_QUEUES, Tenancy};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Ports, in the order of the file. Names are unique.
    pub ports: Vec<Port>,
    /// Patches. A port is in one patch or one bridge, or in none.
    pub patches: Vec<Patch>,
    /// Bridges. Names are unique.
    pub bridges: Vec<Bridge>,
    /// Mappings. A port is in one at most.
    pub mappings: Vec<Mapping>,
    /// What short packets are joined for, if any port does.
    pub aggregation: Option<Aggregation>,
    /// Workers, at least one.
    pub workers: Vec<Worker>,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Where to answer scrapes of the metrics, if anywhere.
    pub metrics: Option<ListenAddress>,
    /// Where controllers can set flows, if anywhere.
    pub openflow: Option<Openflow>,
    /// What the switch denies itself.
    pub confinement: Confinement,
}

/// A mapping: one port receives into the buffers of the other one's guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The physical port.
    pub from: String,
    /// The guest's port.
    pub to: String,
    /// The two are joined by a patch, too.
    pub pass_through: bool,
    /// Whose frames may be received into the guest's buffers, if others are in the bridge.
    pub tenancy: Tenancy,
    /// From so many bytes on the guest's frames are sent from where they lie; measured if not given.
    pub copy_break: Option<u32>,
}

/// The OpenFlow channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openflow {
    /// Where it listens.
    pub listen: Vec<ListenAddress>,
    /// Where it connects to. Not both are empty.
    pub controllers: Vec<ListenAddress>,
    /// What becomes of frames while there are no flows.
    pub fail_mode: FailMode,
    /// Flows for the aggregation table are taken that other switches relay.
    pub relay: bool,
    /// Its datapath id.
    pub datapath_id: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What it is attached to, and how.
    pub driver: Driver,
    /// Which VLANs it carries.
    pub vlan: Vlan,
    /// Packets are joined and split there.
    pub aggregate: bool,
    /// The tunnel that ends there, if one does; no packets are joined then.
    pub vxlan: Option<paflow::vxlan::End>,
    /// Faults to inject, if any.
    pub fault: Option<Fault>,
    /// Capture file for all of its frames, if any.
    pub record_to: Option<PathBuf>,
}

impl Port {
    /// Number of its queue pairs, at most.
    pub fn queues(&self) -> u16 {
        match self.driver {
            Driver::VhostUser { queues, .. } => queues.unwrap_or(MAX_QUEUES),
            Driver::VirtioUser { queues, .. } | Driver::Tap { queues, .. } | Driver::AfXdp { queues, .. } => queues,
            Driver::AfPacket { .. } | Driver::Pcap { .. } | Driver::Generator { .. } | Driver::Sink => 1,
        }
    }
}

/// What a port is attached to, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// The device side of a vhost-user socket.
    VhostUser {
        /// Path of the socket.
        socket: PathBuf,
        /// Who listens on it.
        mode: Mode,
        /// Who may connect to it, if the switch listens.
        access: Access,
        /// Most queue pairs of a guest; as many as it asks for if there is no number.
        queues: Option<u16>,
        /// Memory may lie in any file.
        any_memory: bool,
    },
    /// The driver side of a vhost-user socket.
    VirtioUser {
        /// Path of the socket.
        socket: PathBuf,
        /// Who listens on it.
        mode: Mode,
        /// Queue pairs.
        queues: u16,
        /// Descriptors a ring, a power of two.
        queue_size: u16,
        /// Offer the packed ring format.
        packed: bool,
    },
    /// A tap interface.
    Tap {
        /// Its name, if it is not to be the kernel's choice.
        interface: Option<String>,
        /// MTU to give it.
        mtu: u16,
        /// Queue pairs.
        queues: u16,
    },
    /// An existing interface.
    AfPacket {
        /// Its name.
        interface: String,
    },
    /// An existing interface, past the kernel's network stack.
    AfXdp {
        /// Its name.
        interface: String,
        /// Queue pairs.
        queues: u16,
        /// Who moves frames: [`Mode::Auto`], [`Mode::ZeroCopy`] or [`Mode::Copy`].
        mode: Mode,
        /// Descriptors a ring, a power of two.
        queue_size: u16,
    },
    /// Capture files. At least one is given.
    Pcap {
        /// File to receive from.
        replay: Option<PathBuf>,
        /// File to transmit to.
        record: Option<PathBuf>,
        /// Start again at the end of the file.
        repeat: bool,
        /// How fast.
        pace: Pace,
    },
    /// A source of frames.
    Generator {
        /// Bytes a frame, FCS not counted.
        size: u16,
        /// How fast.
        pace: Pace,
        /// Frames in all, if they are limited.
        frames: Option<u64>,
        /// Source address.
        mac: Mac,
    },
    /// Swallows and counts frames.
    Sink,
}

/// How fast frames are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Frames a second, if they are limited.
    pub rate: Option<u64>,
    /// Frames that come at once, if so.
    pub burst: u32,
}

impl Driver {
    /// The name that the configuration file uses.
    pub fn name(&self) -> &'static str {
        use options::Driver as Kind;
        match self {
            Self::VhostUser { .. } => Kind::VhostUser,
            Self::VirtioUser { .. } => Kind::VirtioUser,
            Self::Tap { .. } => Kind::Tap,
            Self::AfPacket { .. } => Kind::AfPacket,
            Self::AfXdp { .. } => Kind::AfXdp,
            Self::Pcap { .. } => Kind::Pcap,
            Self::Generator { .. } => Kind::Generator,
            Self::Sink => Kind::Sink,
        }
        .as_str()
    }
}

/// Which VLANs a port carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// It knows nothing of VLANs: its bridge (if any) does not either.
    Unaware,
    /// Frames are untagged at the port and belong to this VLAN.
    Access(u16),
    /// Frames are tagged and belong to one of these VLANs, which ascend.
    Trunk(Vec<u16>),
    /// Frames are tagged, with any VLAN.
    TrunkAll,
}

impl Vlan {
    /// The port carries VLAN `vid`.
    pub fn carries(&self, vid: u16) -> bool {
        match self {
            Self::Unaware => false,
            Self::Access(own) => *own == vid,
            Self::Trunk(list) => list.binary_search(&vid).is_ok(),
            Self::TrunkAll => true,
        }
    }
}

/// Faults to inject at a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Probability that a frame is dropped.
    pub drop: f64,
    /// Probability that one bit of a frame is flipped.
    pub corrupt: f64,
    /// Time that every frame is held back.
    pub delay: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Two ports, joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Their names, which differ.
    pub ports: [String; 2],
}

/// Ports with a MAC table between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Its ports. Either all of them are [`Vlan::Unaware`] or none is.
    pub ports: Vec<String>,
    /// Time after which an address that was not seen again is forgotten.
    pub ageing: Duration,
    /// Most addresses that are learned behind each port.
    pub learned_limit: u32,
    /// Addresses that are fixed.
    pub statics: Vec<StaticEntry>,
    /// It forwards by controllers' flows. One bridge at most, and only with an OpenFlow channel.
    pub openflow: bool,
}

/// An address that a bridge does not learn but is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticEntry {
    /// The address.
    pub mac: Mac,
    /// The port it is behind, one of the bridge's.
    pub port: String,
    /// Its VLAN; 0 without VLANs.
    pub vlan: u16,
}

/// A thread that polls queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// CPU to pin it to, if any.
    pub cpu: Option<usize>,
    /// What it does when there is nothing to do.
    pub idle: Idle,
    /// How long it polls on before that, if the file says so.
    pub patience: Option<Duration>,
    /// Queues that it polls; those that no worker has here are spread over all workers.
    pub queues: Vec<QueueId>,
}

/// A queue pair of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueId {
    /// Name of the port.
    pub port: String,
    /// Number of the queue pair, from 0.
    pub queue: u16,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file says something that it must not.
    #[error("{0}")]
    Invalid(Report),
}

impl Config {
    /// Reads and checks the file at `path`. The report beside the configuration holds its warnings.
    pub fn load(path: &Path) -> Result<(Self, Report), LoadError> {
        Self::load_within(path, None)
    }

    /// The same for a switch that is running: a path that is beyond its `reach` is an error, too.
    pub fn load_within(path: &Path, reach: Option<&Reach>) -> Result<(Self, Report), LoadError> {
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        build::build(path, &text, reach).map_err(LoadError::Invalid)
    }

    /// Checks `text`, as if it had been read from `path`.
    pub fn parse(path: &Path, text: &str) -> Result<(Self, Report), Report> {
        build::build(path, text, None)
    }
}

/// Where the control socket is when nobody says: see the `control` section of the reference. `beside` is the
/// directory of the configuration file.
pub fn default_control_socket(beside: &Path) -> PathBuf {
    const NAME: &str = "millrace.sock";
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        return PathBuf::from(runtime).join(NAME);
    }
    let run = Path::new("/run");
    if rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
        return run.join(NAME);
    }
    beside.join(NAME)
}
