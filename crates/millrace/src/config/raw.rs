//! The configuration file as it is written: every key optional, every value with its place in the file.
//!
//! The doc comments here are the reference documentation: `millrace schema --markdown` prints them. Ranges and
//! defaults are named constants, because the validation reads them too.

mod acceleration;
mod dpdk;
mod driver;
mod exchange;
mod mirror;
mod port;
mod several;
mod tagged;
mod vxlan;

pub use acceleration::Acceleration;
pub use dpdk::{DEFAULT_DPDK_MEMORY, DPDK_MEMORY, RawDpdk};
pub use driver::DriverName;
pub use exchange::{
    BUFFER_SIZES, DEFAULT_BUFFER_SIZE, DEFAULT_DEVICE, DEFAULT_EXCHANGE_BUFFERS, EXCHANGE_BUFFERS, ExchangeMode,
    RawExchange, THRESHOLDS, Threshold,
};
pub use mirror::{MirrorDirection, MirrorPoint, RawMirror};
pub use settings::aggregation::raw::{
    AGGREGATE_MTUS, ChecksumMode, DEFAULT_AGGREGATE_MTU, RawAggregation, RawFlow, RawNextHop, ServiceChainId,
    Transport, UDP_PORTS, UnknownChains, VIDS, VNIS,
};
pub use settings::written::{At, Field, Section, Table};
pub use several::Several;
pub use tagged::tagged;
pub use vxlan::{RawTunnelEnd, RawVxlan};

use engine::port::kinds::DriverKeys;
use engine::spec::MOST_SHARING;
use schemars::JsonSchema;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes from which on frames may be sent from where they lie.
pub const COPY_BREAKS: Range<i64> = 0..65536;
/// Ageing times of a bridge, in seconds (IEEE 802.1Q, table 8-6, but from 1 s on).
pub const AGEINGS: Range<i64> = 1..1_000_001;
/// Default of `ageing`: IEEE 802.1Q's recommendation.
pub const DEFAULT_AGEING: i64 = 300;
/// Addresses behind a port.
pub const LEARNED_LIMITS: Range<i64> = 0..65_537;
/// Default of `learned-limit`: more than a guest has, and enough for most uplinks.
pub const DEFAULT_LEARNED_LIMIT: i64 = 4096;
/// Configuration of a Millrace switch.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Configuration")]
pub struct RawFile {
    /// Whether the switch chooses by itself where frames need not be copied: which physical ports receive into guests' buffers, and
    /// which functions of one `group` exchange buffers. It takes nothing away from anyone, and `millrace ctl why PORT` explains its
    /// choice. What `[[mapping]]` and `[[exchange]]` say holds in both cases. docs/mapping.md explains it.
    #[schemars(extend("default" = "auto"))]
    pub acceleration: Field<Acceleration>,
    /// A port: frames enter and leave the switch here.
    #[serde(rename = "port", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Section<RawPort>>,
    /// A patch: two ports joined back to back. Each transmits the frames that the other one receives.
    #[serde(rename = "patch", skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Section<RawPatch>>,
    /// A bridge: any number of ports, between which frames are forwarded by destination MAC address. As soon as one of its
    /// ports has `vlan` or `trunk`, the bridge keeps VLANs apart and each of its ports must say which it carries.
    #[serde(rename = "bridge", skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<Section<RawBridge>>,
    /// Receive queue mapping: a physical port receives into the buffers that a guest has posted, queue by queue, so that
    /// frames for that guest are not copied. `millrace ctl mappings` shows whether it does, or why not.
    #[serde(rename = "mapping", skip_serializing_if = "Vec::is_empty")]
    pub mappings: Vec<Section<RawMapping>>,
    /// Exchange of buffers: frames between the functions of these ports are not copied, as all functions have buffers in one
    /// memory and swap them. The functions must trust each other. docs/exchange.md explains it, and `millrace ctl exchange`
    /// shows what is exchanged, and why the rest is not.
    #[serde(rename = "exchange", skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Section<RawExchange>>,
    /// A mirror: copies of frames that ports receive and send go to another port, for a monitor. docs/mirror.md explains it.
    #[serde(rename = "mirror", skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Section<RawMirror>>,
    /// Packet aggregation: short packets to one next hop leave as one frame by ports with `aggregate`, and are split from
    /// such frames there. docs/aggregation.md explains it.
    pub aggregation: Field<Table<RawAggregation>>,
    /// A worker: one thread that polls queues. Without this section there is one worker, unpinned, idle policy
    /// `backoff`.
    #[serde(rename = "worker", skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Section<RawWorker>>,
    /// The control socket, which `millrace ctl` talks to.
    pub control: Field<Table<RawControl>>,
    /// The OpenMetrics endpoint, for Prometheus and similar collectors. Without this section there is none.
    pub metrics: Field<Table<RawMetrics>>,
    /// The OpenFlow 1.3 channel, over which controllers set the flows of a bridge with `openflow`, and the aggregation
    /// table. Without this section there is none. A change takes effect when the switch is started again, those of
    /// `fail-mode` and `relay` at once.
    pub openflow: Field<Table<RawOpenflow>>,
    /// DPDK, for ports of driver `dpdk`. It is loaded only if there is this section. A change takes effect when the switch is started
    /// again, but for devices that are added. docs/dpdk.md explains it.
    pub dpdk: Field<Table<RawDpdk>>,
    /// Privileges, system calls and files that the switch gives up before it serves its first guest; docs/security.md explains it, and
    /// `millrace ctl confinement` shows it. A change takes effect when the switch is started again.
    pub confinement: Field<Table<RawConfinement>>,
}

/// One `[[port]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "port", extend("required" = ["name", "driver"]), transform = port::add_keys_of_drivers)]
pub struct RawPort {
    /// Name of the port, unique in the file.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,32}$"))]
    pub name: Field<String>,
    /// Kind of the port. It decides which other keys there are.
    pub driver: Field<DriverName>,
    /// The keys of its kind.
    #[schemars(skip)]
    pub settings: Option<DriverKeys>,
    /// The bridge that the port is in. The `ports` of a `[[bridge]]` say the same.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,32}$"))]
    pub bridge: Field<String>,
    /// Names and values for those who look for ports: the switch only stores them. `millrace ctl port list --label` selects by them.
    pub labels: Field<BTreeMap<String, String>>,
    /// Access port of a bridge: frames are untagged here and belong to this VLAN. Excludes `trunk`.
    #[schemars(range(min = VIDS.start, max = VIDS.end - 1))]
    pub vlan: Field<i64>,
    /// Trunk port of a bridge: frames are tagged here and belong to one of these VLANs. Excludes `vlan`.
    pub trunk: Field<Several<i64>>,
    /// Towards the network: packets are joined before they leave here, and aggregates that arrive are split. Needs the
    /// section `[aggregation]`.
    #[schemars(extend("default" = false))]
    pub aggregate: Field<bool>,
    /// Capture file, pcap, or named pipe that every frame passing the port, in either direction, is written to.
    pub record_to: Field<String>,
    /// Faults to inject at this port, for tests.
    pub fault: Field<Table<RawFault>>,
    /// The end of a VXLAN tunnel, on a port of driver `af_xdp`, `dpdk`, `af_packet`, `virtio-user` or `tap`: behind the port,
    /// everything is inside VXLAN, and frames that are not from the other end are dropped. Excludes `aggregate`.
    /// docs/vxlan.md explains it.
    pub vxlan: Field<Table<RawVxlan>>,
    /// Whether the port takes part in what the switch chooses by itself.
    #[schemars(extend("default" = "auto"))]
    pub acceleration: Field<Acceleration>,
    /// Name of the port's owner. Guests of one group may see each other's frames: a mapping in their bridge needs no `trust`. Their
    /// functions exchange buffers, all of which each of them can read and write. A physical port of the group may give the program
    /// behind it access to their memory.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,32}$"))]
    pub group: Field<String>,
    /// The program behind a port of driver `virtio-user` is a NIC, or one that all guests trust with their memory: the switch may
    /// map the port to any guest by itself. The port then takes frames of up to one buffer: 2036 bytes, or 1518 if the guest's buffers
    /// are no longer.
    #[schemars(extend("default" = false))]
    pub trusted: Field<bool>,
    /// Way for several workers to share the receive queues of the port. Without it, one worker polls each queue.
    /// `static-role` and `locked` are for all drivers but `loopback` and `sink`, and not for ports of an `[[exchange]]`;
    /// `locked` is not for the guest of a `[[mapping]]`. docs/sharing.md explains it.
    pub rx_sharing: Field<RxSharing>,
    /// The workers that share the receive queues, by the place of their `[[worker]]` sections in the file, from 0 on. Required
    /// with `rx-sharing`.
    #[schemars(length(min = 1, max = MOST_SHARING))]
    pub workers: Field<Vec<At<i64>>>,
    /// With static roles: the worker that alone talks to the device, one of `workers`, or another one that processes none of the
    /// port's frames. Without it, the `workers` take turns: the first is the parent of queue 0, and processes frames, too.
    pub parent: Field<i64>,
    /// With static roles: the order in which frames leave the port's workers.
    #[schemars(extend("default" = "per-flow"))]
    pub order: Field<FrameOrder>,
    /// With static roles: time after which a worker that holds the oldest frames counts as stalled, e.g. `"100ms"`; from 1 ms
    /// to 10 seconds. The others continue without it, and frames that it held are dropped.
    #[schemars(extend("default" = "1s"))]
    pub stalled_after: Field<String>,
}

/// How several workers share the receive queues of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum RxSharing {
    /// Queue by queue: the workers take turns, and each polls queues of its own. The NIC spreads flows over the queues.
    Rss,
    /// Frame by frame, with one parent: it alone receives, and all `workers` process the batches that they claim. This also
    /// spreads a single flow.
    StaticRole,
    /// Frame by frame, under a lock that each worker takes to receive. For comparison.
    Locked,
}

/// The order in which frames leave the workers of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FrameOrder {
    /// As they came: the parent sends them.
    #[default]
    PerFlow,
    /// Frames may overtake each other: where a guest has several queues, workers send to queues of their own.
    None,
}

/// One `[port.fault]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "fault")]
pub struct RawFault {
    /// Probability that a frame is dropped.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub drop: Field<f64>,
    /// Probability that one bit of a frame is flipped.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0))]
    pub corrupt: Field<f64>,
    /// Time that every frame is held back, e.g. `"5ms"`; at most 10 seconds, and at most 4096 frames of a queue at a time.
    #[schemars(extend("default" = "0s"))]
    pub delay: Field<String>,
    /// Seed of the random choices: the same seed, the same faults.
    #[schemars(range(min = 0), extend("default" = 1))]
    pub seed: Field<i64>,
}

/// One `[[patch]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "patch", extend("required" = ["ports"]))]
pub struct RawPatch {
    /// The two ports.
    #[schemars(length(equal = 2))]
    pub ports: Field<Vec<At<String>>>,
}

/// One `[[mapping]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "mapping", extend("required" = ["from", "to"]))]
pub struct RawMapping {
    /// The physical port, of driver `af_xdp`, `dpdk` or `virtio-user`, or one queue of it (`"wan.1"`). The backend of the latter can
    /// write to the guest's memory.
    pub from: Field<String>,
    /// The port of the guest, of driver `vhost-user`, or one queue of it. It is not offered VIRTIO_F_IN_ORDER. If both are
    /// ports, equal queues go together; beside one queue, a port lends the buffers of its queue 0.
    pub to: Field<String>,
    /// Path of frames between the two.
    #[schemars(extend("default" = "bridge"))]
    pub mode: Field<MappingMode>,
    /// In a bridge: ports whose frames the guest may see, as they are also received into its buffers. The mapping copies as
    /// long as the bridge has other ports with guests.
    #[schemars(extend("default" = []))]
    pub trust: Field<Several<String>>,
    /// In a bridge: the component that keeps frames for others out of the guest's buffers. Excludes `trust`.
    pub steering: Field<MappingSteering>,
    /// Length in bytes from which frames stay in the guest's buffers, both ways; shorter ones are copied. Those to the guest go by the mean
    /// of the last bursts, as their length is not known before they come. Without this key, the switch finds the lengths by timing, while frames
    /// flow. With 0, none is copied.
    #[schemars(range(min = COPY_BREAKS.start, max = COPY_BREAKS.end - 1))]
    pub copy_break: Field<i64>,
}

/// How frames get from a physical port to the guest whose buffers they are received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MappingMode {
    /// Through the bridge that both ports are in. Frames for others are copied out of the guest's buffers, if `trust` admits
    /// them.
    Bridge,
    /// Without a look-up. The two ports are joined back to back, and must not be joined to anything else.
    PassThrough,
}

/// The component that keeps frames for others out of a mapped guest's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MappingSteering {
    /// The switch, at an af_xdp port in copy mode: only frames to the guest's `[[bridge.static]]` addresses, to multicast
    /// addresses and to the broadcast address are received into its buffers. Other frames take another path, with one more
    /// copy.
    Mac,
    /// The NIC: it brings only frames for this guest to the port, by a rule (`ethtool -N`) or because it is a virtual
    /// function or a virtio NIC of the guest's own. Nothing checks that.
    Given,
}

/// One `[[bridge]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "bridge", extend("required" = ["name"]))]
pub struct RawBridge {
    /// Name of the bridge, unique in the file.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,32}$"))]
    pub name: Field<String>,
    /// The ports, besides those that name the bridge themselves (`bridge`); a port can be in one bridge or patch only.
    pub ports: Field<Vec<At<String>>>,
    /// Seconds after which an address that was not seen again is forgotten.
    #[schemars(range(min = AGEINGS.start, max = AGEINGS.end - 1), extend("default" = DEFAULT_AGEING))]
    pub ageing: Field<i64>,
    /// Most addresses that are learned behind each of the ports. Frames from others pass, but those to them go to all ports:
    /// `millrace ctl stats` counts both.
    #[schemars(
        range(min = LEARNED_LIMITS.start, max = LEARNED_LIMITS.end - 1),
        extend("default" = DEFAULT_LEARNED_LIMIT)
    )]
    pub learned_limit: Field<i64>,
    /// Forward frames to 01:80:c2:00:00:00 to 0f, which bridges keep to themselves: spanning tree, LACP, 802.1X, LLDP. Flows of
    /// controllers forward them anyway, but for `NORMAL`, and so do patches.
    #[schemars(extend("default" = false))]
    pub forward_reserved: Field<bool>,
    /// Controllers decide by OpenFlow flows where its frames go; at most one bridge of a file. Needs the section
    /// `[openflow]`. docs/openflow.md explains it.
    #[schemars(extend("default" = false))]
    pub openflow: Field<bool>,
    /// A MAC address that is never learned, moved or forgotten. At most 4096 of them.
    #[serde(rename = "static", skip_serializing_if = "Vec::is_empty")]
    pub statics: Vec<Section<RawStatic>>,
}

/// One `[[bridge.static]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "static", extend("required" = ["mac", "port"]))]
pub struct RawStatic {
    /// The address, `aa:bb:cc:dd:ee:ff`; unicast.
    pub mac: Field<String>,
    /// The port of the bridge that it is behind.
    pub port: Field<String>,
    /// The VLAN that it is in. Required behind a trunk port; the port's own behind an access port.
    #[schemars(range(min = VIDS.start, max = VIDS.end - 1))]
    pub vlan: Field<i64>,
}

/// One `[[worker]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "worker")]
pub struct RawWorker {
    /// CPU to pin the thread to. Without it the kernel chooses.
    #[schemars(range(min = 0, max = 1023))]
    pub cpu: Field<i64>,
    /// Idle policy: behaviour of the worker while there are no frames.
    #[schemars(extend("default" = "backoff"))]
    pub idle: Field<Idle>,
    /// Time that the worker keeps polling after the last frame before it backs off or sleeps, e.g. `"0s"`; at most 10
    /// seconds. Waking up costs microseconds, so the default suits a worker that has its CPU to itself; if others wait for
    /// the CPU, less is better.
    #[schemars(extend("default" = "50us"))]
    pub patience: Field<String>,
    /// Time of this worker that a port with any number of queues may take before other busy ports have their turn, however
    /// costly its frames are; at most four bursts. Ports whose bursts take less send equal numbers of frames, so that none
    /// are lost between the functions of a chain on one worker. A shorter turn isolates ports whose frames are costly.
    #[schemars(extend("default" = "20us"))]
    pub turn: Field<String>,
    /// Ports (`"a"`) or single queues (`"a.1"`) that this worker polls. Queues that no worker names are spread
    /// evenly.
    pub ports: Field<Vec<At<String>>>,
}

/// `[control]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "control")]
pub struct RawControl {
    /// Path of the socket, created with mode 0600. The default is the first that can be created of
    /// `$XDG_RUNTIME_DIR/millrace.sock`, `$RUNTIME_DIRECTORY/millrace.sock` (a service's), `/run/millrace.sock` and `millrace.sock` beside the configuration file.
    pub socket: Field<String>,
    /// Directory that keeps ports, bridges and patches that are added at run time (`millrace ctl port add`), so that they are there
    /// again when the switch is started again. It must exist, and be the switch's user's. Without it, they are gone then.
    pub ports: Field<String>,
    /// Make the directories of sockets that ports listen at, as far as they are missing: those in `directories` of `[confinement]` and
    /// those of ports that are there at the start, for the `user` there; and beneath the former, those of ports that are added later.
    #[schemars(extend("default" = false))]
    pub make_directories: Field<bool>,
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "metrics", extend("required" = ["listen"]))]
pub struct RawMetrics {
    /// Address at which to answer `GET /metrics`: a loopback address and port such as `"127.0.0.1:9464"`, or
    /// `"unix:metrics.sock"`. Other addresses are refused: the endpoint has no authentication.
    pub listen: Field<String>,
}

/// `[openflow]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "openflow")]
pub struct RawOpenflow {
    /// Addresses at which to wait for controllers: loopback addresses and ports such as `"127.0.0.1:6653"`, or
    /// `"unix:openflow.sock"`. Other addresses are refused: there is neither authentication nor encryption. At least one of
    /// `listen` and `controllers` is required.
    pub listen: Field<Vec<At<String>>>,
    /// Controllers to connect to, and to reconnect to when a connection ends: IP addresses and ports such as
    /// `"tcp:192.0.2.1:6653"`, or `"unix:controller.sock"`. There is neither authentication nor encryption.
    pub controllers: Field<Vec<At<String>>>,
    /// Treatment of frames in a bridge with `openflow` while there are no flows at all. As soon as there is one, frames that
    /// match none are dropped.
    #[schemars(extend("default" = "standalone"))]
    pub fail_mode: Field<FailMode>,
    /// Take flows for the aggregation table that other switches relay in frames: those that come in at ports with
    /// `aggregate`, to the `mac` of `[aggregation]`. There is no authentication: every sender of such frames can set
    /// next hops.
    #[schemars(extend("default" = false))]
    pub relay: Field<bool>,
    /// Number by which controllers identify this switch.
    #[schemars(range(min = 1), extend("x-default" = "made up from the path of the control socket"))]
    pub datapath_id: Field<i64>,
}

/// Treatment of frames while there are no flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FailMode {
    /// they are forwarded as in any bridge
    #[default]
    Standalone,
    /// they are dropped, with reason `no-flow`
    Secure,
}

/// `[confinement]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "confinement")]
pub struct RawConfinement {
    /// Give up unneeded privileges, and refuse unneeded system calls and files.
    #[schemars(extend("default" = true))]
    pub enabled: Field<bool>,
    /// User to continue as, with its groups; the switch must then be started as root. Directories of sockets and capture
    /// files that the switch creates must be that user's. The default is the user that starts the switch.
    pub user: Field<String>,
    /// Directories, which must exist, beneath which a later configuration may name sockets and capture files. Directories of
    /// the sockets and files in the configuration at the start need not be listed.
    pub directories: Field<Vec<At<String>>>,
}

/// How a worker rests while there are no frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Idle {
    /// polls all the time: lowest latency, one CPU always busy
    Poll,
    /// polls less and less often, and finally sleeps
    #[default]
    Backoff,
    /// sleeps at once until a queue has something
    Sleep,
}
